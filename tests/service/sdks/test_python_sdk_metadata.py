"""The public API's own Python client, unmodified, queries metadata and has it cascade."""

import io

import pytest
import trio
from box_sdk_gen import (
    ApplyMetadataCascadePolicyConflictResolution,
    BoxAPIError,
    CreateFolderMetadataByIdScope,
    CreateFolderParent,
    CreateMetadataCascadePolicyScope,
    CreateMetadataTemplateFields,
    CreateMetadataTemplateFieldsTypeField,
    SearchByMetadataQueryOrderBy,
    SearchByMetadataQueryOrderByDirectionField,
    UploadFileAttributes,
    UploadFileAttributesParentField,
)


async def test_queries_and_cascades(client):
    def story():
        field = CreateMetadataTemplateFields(
            type=CreateMetadataTemplateFieldsTypeField.FLOAT, key="amount", display_name="Amount"
        )
        template = client.metadata_templates.create_metadata_template(
            "enterprise", "Bill", template_key="bill", fields=[field]
        )
        folder = client.folders.create_folder("bills", CreateFolderParent(id="0"))
        client.folder_metadata.create_folder_metadata_by_id(
            folder.id, CreateFolderMetadataByIdScope.ENTERPRISE, "bill", {"amount": 7}
        )
        made = client.metadata_cascade_policies.create_metadata_cascade_policy(
            folder.id, CreateMetadataCascadePolicyScope.ENTERPRISE, "bill"
        )
        assert (made.template_key, made.parent.id) == ("bill", folder.id)
        for name in ("a.txt", "b.txt"):
            attributes = UploadFileAttributes(name=name, parent=UploadFileAttributesParentField(id=folder.id))
            client.uploads.upload_file(attributes, io.BytesIO(name.encode()))
        source = f"{template.scope}.bill"
        found = client.search.search_by_metadata_query(
            source,
            folder.id,
            query="amount >= :least",
            query_params={"least": "5"},
            order_by=[
                SearchByMetadataQueryOrderBy(
                    field_key="amount", direction=SearchByMetadataQueryOrderByDirectionField.ASC
                )
            ],
            limit=1,
            marker=None,
            fields=["name", f"metadata.{source}.amount"],
        )
        assert [one.name for one in found.entries] == ["a.txt"]
        assert found.entries[0].metadata.extra_data[template.scope]["bill"]["amount"] == 7
        rest = client.search.search_by_metadata_query(source, "0", query="amount = 7")
        assert [one.name for one in rest.entries] == ["bills", "a.txt", "b.txt"]
        assert rest.next_marker is None
        policies = client.metadata_cascade_policies
        assert policies.get_metadata_cascade_policies(folder.id).entries[0].id == made.id
        policies.apply_metadata_cascade_policy(
            made.id, ApplyMetadataCascadePolicyConflictResolution.OVERWRITE
        )
        policies.delete_metadata_cascade_policy_by_id(made.id)
        with pytest.raises(BoxAPIError) as caught:
            client.search.search_by_metadata_query(source, "0", query="nothing = 7")
        assert caught.value.response_info.status_code == 400

    await trio.to_thread.run_sync(story)
