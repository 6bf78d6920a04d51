// What the official SDK for Node does with the service: run by test_official_node_sdk.py, which compares what is said.
import { createRequire } from "node:module";
import { Readable } from "node:stream";

const { base, folder, ...credentials } = JSON.parse(process.argv[2]);
const { BoxCcgAuth, BoxClient, CcgConfig } = createRequire(`${folder}/`)("box-node-sdk");

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
  }),
);
