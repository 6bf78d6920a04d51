"""Direct uploads of a new file or a new version.

The SHA-1 goes with the bytes and is compared with what the service says it has.

Rule: an upload is not repeated by itself after a broken connection or a 5xx: the file may be there.  The
caller looks, or sends it again and meets its own file as the holder of the name.
"""

from datetime import datetime

from cmsfs import errors
from cmsfs.client.content.search import FIELDS_PARAM
from cmsfs.client.transport import multipart
from cmsfs.client.transport.retry import Repeat
from cmsfs.client.transport.wire import Wire
from cmsfs.models import base, wire_names
from cmsfs.models.content import items, uploads

BAD_DIGEST = "bad_digest"  # the code of a refusal whose bytes did not have the SHA-1 of the header
OTHER_BYTES = "the service received other bytes"


class UploadsApi:
    """POST /files/content and POST /files/:id/content of the upload address, and the question beforehand."""

    def __init__(self, wire: Wire, upload_url: str, base_url: str) -> None:
        self._wire = wire
        self._preflight_url = f"{base_url}/files/content"
        self._url = f"{upload_url}/files"

    async def preflight_version(self, file_id: str, *, size: int) -> None:
        """Return if a version of this size would be taken; raise what sending it would raise."""
        url = f"{self._preflight_url.removesuffix('/content')}/{file_id}/content"
        body = uploads.Preflight(size=size).body()
        await self._wire.ask(uploads.PreflightAnswer, "OPTIONS", url, repeat=Repeat.READ, body=body)

    async def preflight(self, name: str, parent_id: str, *, size: int | None = None) -> None:
        """Return if a file of this name could be made there; raise what making it would raise.

        `Conflict` if the name is taken: `conflict` of it is the holder.
        """
        wish = uploads.Preflight(name=name, parent=base.Reference(id=parent_id))
        if size is not None:
            wish = wish.model_copy(update={"size": size})
            wish.model_fields_set.add("size")
        body = wish.body()
        await self._wire.ask(
            uploads.PreflightAnswer, "OPTIONS", self._preflight_url, repeat=Repeat.READ, body=body
        )

    async def new_file(
        self,
        attributes: uploads.UploadAttributes,
        source: multipart.Source,
        *,
        sha1: str,
        progress: multipart.Progress | None = None,
    ) -> items.File:
        """The new file.

        Raises `Conflict` if the name is taken, `IntegrityError` if the service has other bytes than
        `sha1` says, `SourceChanged` if the source has another size than it said.
        Cancelled: the file may be there or not.
        """
        return await self._send("content", attributes.body(), source, sha1=sha1, progress=progress)

    async def new_version(
        self,
        file_id: str,
        source: multipart.Source,
        *,
        sha1: str,
        etag: str | None = None,
        name: str | None = None,
        content_modified_at: datetime | None = None,
        progress: multipart.Progress | None = None,
    ) -> items.File:
        """The file with its new content; `name` renames it as well.

        Raises `PreconditionFailed` if it is no longer of the version `etag`, and as `new_file` does.
        """
        given = {"name": name, "content_modified_at": content_modified_at}
        attributes = uploads.VersionAttributes(**{key: v for key, v in given.items() if v is not None})
        return await self._send(
            f"{file_id}/content", attributes.body(), source, sha1=sha1, etag=etag, progress=progress
        )

    async def _send(
        self,
        path: str,
        attributes: dict[str, object],
        source: multipart.Source,
        *,
        sha1: str,
        etag: str | None = None,
        progress: multipart.Progress | None,
    ) -> items.File:
        body = multipart.MultipartBody(attributes, source, progress=progress)
        headers = body.headers | {wire_names.SHA1_HEADER: sha1}
        if etag is not None:
            headers["if-match"] = etag
        try:
            result = await self._wire.ask(
                uploads.UploadResult,
                "POST",
                f"{self._url}/{path}",
                kind="upload",
                params=FIELDS_PARAM,
                headers=headers,
                content=body,
            )
        except errors.BadRequest as error:
            if error.code != BAD_DIGEST:
                raise
            # The service compares too, and refuses what we would refuse of its answer.
            raise errors.IntegrityError(OTHER_BYTES, expected=sha1, actual="another") from error
        finally:
            await body.aclose()
        if len(result.entries) != 1:
            raise errors.ProtocolError(f"the answer to an upload has {len(result.entries)} files")
        file = result.entries[0]
        if file.sha1 is None:
            raise errors.ProtocolError("the answer to an upload carries no SHA-1")
        if file.sha1.lower() != sha1.lower():
            raise errors.IntegrityError(OTHER_BYTES, expected=sha1, actual=file.sha1)
        return file
