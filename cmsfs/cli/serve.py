"""`cmsfs serve`: the embedded service as a server on the network.

Rule: it says where it listens and where the credentials are, never what they are.
"""

import functools
import signal
from pathlib import Path

import click
import trio

from cmsfs import config, errors, logs
from cmsfs.cli import context, output
from cmsfs.service import demo, store
from cmsfs.service import serve as serving

DEFAULT_PORT = 8472


@click.command()
@click.option("--data", type=click.Path(path_type=Path), help="Folder of the data (default: the demo's).")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port to listen at; 0 takes a free one.",
)
@click.option("--tls-cert", type=click.Path(path_type=Path), help="Certificate chain (PEM), for HTTPS.")
@click.option("--tls-key", type=click.Path(path_type=Path), help="Its private key (PEM).")
@output.json_option
@context.pass_context
def serve(
    ctx: context.Context,
    data: Path | None,
    *,
    host: str,
    port: int,
    tls_cert: Path | None,
    tls_key: Path | None,
    as_json: bool,
) -> None:
    """Serve the embedded service, with its sample enterprise, over HTTP until interrupted."""
    if bool(tls_cert) != bool(tls_key):
        raise click.UsageError("--tls-cert and --tls-key go together.")
    for file in (tls_cert, tls_key):
        if file and not file.is_file():
            raise errors.UserError(f"{file} does not exist or is not a file.", exit_code=2)
    settings = ctx.settings()
    logs.configure(settings.log_level)
    folder = data or config.service_data(settings)
    trio.run(_serve, folder, host, port, tls_cert, tls_key, as_json)


async def _serve(
    folder: Path, host: str, port: int, certfile: Path | None, keyfile: Path | None, as_json: bool
) -> None:
    async with store.open_store(folder) as opened:
        await demo.ensure_sample(opened)
        listen = functools.partial(
            serving.serve, opened, host=host, port=port, certfile=certfile, keyfile=keyfile
        )
        # The receiver comes first: a signal while the server starts ends it in good order, too.
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async with trio.open_nursery() as nursery:
                url = await nursery.start(listen)
                _announce(url, folder, as_json=as_json)
                async for _ in signals:
                    break
                nursery.cancel_scope.cancel()


def _announce(url: str, folder: Path, *, as_json: bool) -> None:
    credentials = folder / "credentials.json"
    if as_json:
        output.document({"url": url, "credentials_file": str(credentials)})
    else:
        output.say(f"Serving {folder} at {url}, credentials in {credentials}.  Ctrl-C ends it.")
