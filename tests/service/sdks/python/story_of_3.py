"""What the Python SDK did before it was generated: test_python_sdk_3.py runs it and compares what is said."""

import io
import json
import sys
import zipfile
from typing import Any

from boxsdk import Client, OAuth2  # type: ignore[import-not-found]
from boxsdk.config import API  # type: ignore[import-not-found]
from boxsdk.object.metadata_template import (  # type: ignore[import-not-found]
    MetadataField,
    MetadataFieldType,
)

wish = json.loads(sys.argv[1])
API.BASE_API_URL = f"{wish['base']}/2.0"
API.UPLOAD_URL = f"{wish['base']}/api/2.0"
API.OAUTH2_API_URL = f"{wish['base']}/oauth2"
client: Any = Client(OAuth2(client_id="", client_secret="", access_token=wish["token"]))

me = client.user().get()
folder = client.folder("0").create_subfolder("of three")
file = folder.upload_stream(io.BytesIO(b"a teal in python"), "teal.txt")
downloaded = file.content().decode()
found = [one.name for one in client.search().query("teal", result_type="file")]
file.update_contents_with_stream(io.BytesIO(b"a teal again"))
versions = len(list(file.get_previous_versions()))

archive = io.BytesIO()
status = client.download_zip("z", [folder], archive)
names = zipfile.ZipFile(archive).namelist()

group = client.create_group("Of three")
group.add_member(me)
members = [one.user.id for one in group.get_memberships()]
collaboration = folder.collaborate(group, "viewer")

task = file.create_task("look")
task.assign(me)
assigned = [one.assigned_to.id for one in task.get_assignments()]
comment = file.add_comment("quack").message

template = client.create_metadata_template(
    "Of three",
    [MetadataField(MetadataFieldType.STRING, "Bird", "bird")],
    template_key="ofThree",
)
file.metadata("enterprise", "ofThree").create({"bird": "teal"})
folder.metadata("enterprise", "ofThree").create({"bird": "duck"})
policy = folder.cascade_metadata(template)
queried = [
    one["name"]
    for one in client.search().metadata_query(
        f"{template.scope}.ofThree", "0", "bird = :bird", {"bird": "teal"}, fields=["name"]
    )
]

webhook = client.create_webhook(folder, ["FILE.UPLOADED"], "https://receiver.example.com/in")
webhooks = [one.id == webhook.id for one in client.get_webhooks()]

favorites = next(iter(client.collections()))
file.add_to_collection(favorites)
favored = [one.name for one in favorites.get_items()]

events = {one.event_type for one in client.events().get_events(stream_position=0)["entries"]}
shared = file.get_shared_link(access="open")
file.delete()
trashed = [one.name for one in client.trash().get_items()]

sys.stdout.write(
    json.dumps(
        {
            "me": me.id,
            "downloaded": downloaded,
            "found": found,
            "versions": versions,
            "archive": [names, status["state"]],
            "members": members,
            "role": collaboration.role,
            "assigned": assigned,
            "comment": comment,
            "policies": [one.id == policy.id for one in folder.get_metadata_cascade_policies()],
            "queried": queried,
            "webhooks": webhooks,
            "favored": favored,
            "events": sorted(events & {"ITEM_CREATE", "ITEM_UPLOAD"}),
            "shared": shared.startswith(wish["base"]),
            "trashed": trashed,
        }
    )
)
