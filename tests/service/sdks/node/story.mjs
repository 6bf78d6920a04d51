// What the generated SDKs for Node and TypeScript do with the service: run by test_node_sdks.py, which compares
// what is said.
import { createRequire } from "node:module";
import { Readable } from "node:stream";

const { base, folder, name, ...credentials } = JSON.parse(process.argv[2]);
const { BoxCcgAuth, BoxClient, CcgConfig } = createRequire(`${folder}/`)(name);

const auth = new BoxCcgAuth({ config: new CcgConfig(credentials) });
const client = new BoxClient({ auth }).withCustomBaseUrls({
  baseUrl: base,
  uploadUrl: `${base}/api`,
  oauth2Url: `${base}/api/oauth2`,
});

async function text(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return Buffer.concat(parts).toString();
}

const me = await client.users.getUserMe();
const uploaded = await client.uploads.uploadFile({
  attributes: { name: "from node.txt", parent: { id: "0" } },
  file: Readable.from([Buffer.from("a capercaillie in node")]),
});
const file = uploaded.entries[0];
const downloaded = await text(await client.downloads.downloadFile(file.id));
const url = await client.downloads.getDownloadFileUrl(file.id);
const byUrl = await (await fetch(url)).text();
const found = await client.search.searchForContent({ query: "capercaillie" });
const versions = await client.uploads.uploadFileVersion(file.id, {
  attributes: { name: "renamed.txt" },
  file: Readable.from([Buffer.from("another")]),
});
const [old] = (await client.fileVersions.getFileVersions(file.id)).entries;
await client.fileVersions.promoteFileVersion(file.id, { requestBody: { id: old.id, type: "file_version" } });
const restored = await client.files.getFileById(file.id);
await client.files.deleteFileById(file.id);
const trashed = await client.trashedFiles.getTrashedFileById(file.id);


const folderOfAll = await client.folders.createFolder({ name: "all", parent: { id: "0" } });
const inside = (
  await client.uploads.uploadFile({
    attributes: { name: "inside.txt", parent: { id: folderOfAll.id } },
    file: Readable.from([Buffer.from("inside")]),
  })
).entries[0];

async function bytes(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return Buffer.concat(parts);
}
const archive = await bytes(
  await client.zipDownloads.downloadZip({
    items: [{ id: folderOfAll.id, type: "folder" }],
    downloadFileName: "all.zip",
  }),
);

const group = await client.groups.createGroup({ name: "Rowers" });
const member = await client.memberships.createGroupMembership({ user: { id: me.id }, group: { id: group.id } });
const members = await client.memberships.getGroupMemberships(group.id);

const task = await client.tasks.createTask({
  item: { id: inside.id, type: "file" },
  message: "look",
  action: "review",
});
const assignment = await client.taskAssignments.createTaskAssignment({
  task: { id: task.id, type: "task" },
  assignTo: { id: me.id },
});
const approved = await client.taskAssignments.updateTaskAssignmentById(assignment.id, {
  requestBody: { resolutionState: "approved" },
});

const template = await client.metadataTemplates.createMetadataTemplate({
  scope: "enterprise",
  templateKey: "boats",
  displayName: "Boats",
  fields: [{ type: "float", key: "length", displayName: "Length" }],
});
await client.folderMetadata.createFolderMetadataById(folderOfAll.id, "enterprise", "boats", { length: 8.5 });
const policy = await client.metadataCascadePolicies.createMetadataCascadePolicy({
  folderId: folderOfAll.id,
  scope: "enterprise",
  templateKey: "boats",
});
await client.metadataCascadePolicies.applyMetadataCascadePolicy(policy.id, { conflictResolution: "overwrite" });
const instance = await client.fileMetadata.getFileMetadataById(inside.id, "enterprise", "boats");
const long = await client.search.searchByMetadataQuery({
  from: `${template.scope}.boats`,
  query: "length > :least",
  queryParams: { least: 8 },
  ancestorFolderId: folderOfAll.id,
  fields: ["name", `metadata.${template.scope}.boats.length`],
});

const webhook = await client.webhooks.createWebhook({
  target: { id: folderOfAll.id, type: "folder" },
  address: "https://receiver.example.com/in",
  triggers: ["FILE.UPLOADED"],
});
const webhooks = await client.webhooks.getWebhooks();

const favorites = (await client.collections.getCollections()).entries[0];
await client.files.updateFileById(inside.id, { requestBody: { collections: [{ id: favorites.id }] } });
const favored = await client.collections.getCollectionItems(favorites.id);

const events = await client.events.getEvents({ streamType: "all", streamPosition: "0" });

console.log(
  JSON.stringify({
    me: me.id,
    size: file.size,
    downloaded,
    url,
    byUrl,
    found: found.entries.map((one) => one.name),
    renamed: versions.entries[0].name,
    restored: restored.name,
    trashed: trashed.itemStatus,
    archive: [archive.subarray(0, 2).toString(), archive.includes("inside.txt")],
    members: members.entries.map((one) => [one.id === member.id, one.user.id]),
    approved: approved.resolutionState,
    cascaded: instance.extraData.length,
    long: long.entries.map((one) => one.name).sort(),
    webhooks: webhooks.entries.map((one) => one.id === webhook.id),
    favored: favored.entries.map((one) => one.name),
    events: [...new Set(events.entries.map((one) => one.eventType))].sort(),
  }),
);
