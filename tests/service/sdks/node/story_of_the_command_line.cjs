// What the official command line does, call by call, with the SDK that it is made of: its commands files:upload
// (--overwrite, and a large file), files:download, files:versions:download, files:zip, search, groups,
// files:metadata:add and :set, and events with and without --enterprise.  Run by test_node_sdks.py.
const fs = require("node:fs");
const { createRequire } = require("node:module");

const { base, folder, name, clientId, clientSecret, token } = JSON.parse(process.argv[2]);
const BoxSDK = createRequire(`${folder}/`)(name).default;

async function all(iterator) {
  const found = [];
  for await (const one of { [Symbol.asyncIterator]: () => iterator }) found.push(one);
  return found;
}

async function saved(stream, path) {
  const output = fs.createWriteStream(path);
  stream.pipe(output);
  await new Promise((resolve, reject) => {
    output.on("close", resolve);
    stream.on("error", reject);
  });
  return fs.readFileSync(path, "utf8");
}

async function overwritten(client, path, name) {
  try {
    await client.files.uploadFile("0", name, fs.createReadStream(path), {});
  } catch (error) {
    const { statusCode, response } = error;
    if (statusCode !== 409 || response.body.code !== "item_name_in_use") throw error;
    const conflicts = response.body.context_info.conflicts;
    const there = Array.isArray(conflicts) ? conflicts[0].id : conflicts.id;
    return client.files.uploadNewFileVersion(there, fs.createReadStream(path), {});
  }
  return null;
}

async function enterpriseEvents(client) {
  const now = Date.now();
  const options = {
    stream_type: "admin_logs",
    created_before: new Date(now + 60000).toISOString().replace(/\.\d{3}Z$/u, "+00:00"),
    created_after: new Date(now - 5 * 86400000).toISOString().replace(/\.\d{3}Z$/u, "+00:00"),
  };
  let events = await client.events.get(options);
  const found = [].concat(events.entries);
  while (options.stream_position !== events.next_stream_position) {
    options.stream_position = events.next_stream_position;
    events = await client.events.get(options);
    events.entries.forEach((one) => found.push(one));
  }
  return found;
}

function of(settings) {
  const sdk = new BoxSDK({ clientID: clientId, clientSecret });
  sdk.configure({ apiRootURL: base, uploadAPIRootURL: `${base}/api`, authorizeRootURL: `${base}/api` });
  sdk.configure(settings);
  return sdk.getBasicClient(token);
}

async function story() {
  const client = of({ iterators: true, analyticsClient: { name: "box-cli", version: "4.0.0" } });
  // The SDK knows the response of an upload from a page by the name of the host, upload.box.com; anywhere else it
  // takes it for one, and the command prints no file.
  const uploads = of({});

  const path = `${folder}/a.txt`;
  fs.writeFileSync(path, "a wigeon on the command line");
  const times = { content_created_at: "2026-01-02T03:04:05+00:00" };
  const uploaded = await uploads.files.uploadFile("0", "b.txt", fs.createReadStream(path), times);
  const file = uploaded.entries[0];
  fs.writeFileSync(path, "a pintail on the command line");
  const again = await overwritten(uploads, path, "b.txt");

  const big = `${folder}/big`;
  fs.writeFileSync(big, Buffer.alloc(20 * 1024 * 1024 + 7, "teal"));
  const size = fs.statSync(big).size;
  const uploader = await uploads.files.getChunkedUploader("0", size, "big", fs.createReadStream(big), {
    fileAttributes: {},
  });
  let sent = 0;
  uploader.on("chunkUploaded", (chunk) => (sent += chunk.part.size));
  const large = (await uploader.start()).entries[0];

  const seen = await client.files.get(file.id);
  const downloaded = await saved(await client.files.getReadStream(file.id, {}), `${folder}/c.txt`);
  const versions = await all(await client.files.getVersions(file.id, {}));
  const options = { version: versions[0].id };
  const before = await saved(await client.files.getReadStream(file.id, options), `${folder}/d.txt`);

  const zip = `${folder}/z.zip`;
  const output = fs.createWriteStream(zip);
  const closed = new Promise((resolve) => output.on("close", resolve));
  const status = await client.files.downloadZip("z.zip", [{ type: "file", id: file.id }], output);
  await closed;

  const group = await client.groups.create("Anglers", {});
  const groups = await all(await client.groups.getAll({}));
  const added = await client.files.addMetadata(file.id, "global", "properties", { bird: "wigeon" });
  const set = await client.files.setMetadata(file.id, "global", "properties", { bird: "pintail" });
  const mdfilters = [{ scope: "global", templateKey: "properties", filters: { bird: "pintail" } }];
  const found = await all(await client.search.query("pintail", { limit: 100 }));
  const filtered = await all(await client.search.query(null, { limit: 100, mdfilters }));
  const mine = await client.events.get({ stream_position: "0" });
  const theirs = await enterpriseEvents(client);
  return {
    created: file.content_created_at,
    again: again.entries[0].id === file.id,
    large: [large.size === size, sent === size],
    name: seen.name,
    downloaded,
    before,
    zip: [fs.readFileSync(zip).subarray(0, 2).toString(), status.state],
    groups: groups.map((one) => one.id === group.id),
    metadata: [added.bird, set.bird],
    found: found.map((one) => one.name),
    filtered: filtered.map((one) => one.name),
    mine: mine.entries.map((one) => one.event_type),
    theirs: theirs.map((one) => one.event_type),
  };
}

story().then(
  (told) => console.log(JSON.stringify(told)),
  (error) => {
    console.error(error.response ? JSON.stringify(error.response.body) : "", error);
    process.exit(1);
  },
);
