// What the SDK for Node did before it was generated, and what the official command line does by it: the calls are
// those of its commands files:upload, files:download, files:zip, search, groups, files:metadata, events, tasks,
// webhooks, metadata-query, metadata-cascade-policies and collections.  Run by test_node_sdks.py.
const fs = require("node:fs");
const { createRequire } = require("node:module");

const { base, folder, name, clientId, clientSecret, token } = JSON.parse(process.argv[2]);
const BoxSDK = createRequire(`${folder}/`)(name);

async function bytes(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return Buffer.concat(parts);
}

async function story() {
  const sdk = new BoxSDK({ clientID: clientId, clientSecret });
  sdk.configure({ apiRootURL: base, uploadAPIRootURL: `${base}/api`, authorizeRootURL: `${base}/api` });
  const client = sdk.getBasicClient(token);
  const me = await client.users.get(client.CURRENT_USER_ID);

  const made = await client.folders.create("0", "of three");
  const uploaded = await client.files.uploadFile(made.id, "from three.txt", Buffer.from("a goldeneye in node"));
  const file = uploaded.entries[0];
  const downloaded = (await bytes(await client.files.getReadStream(file.id))).toString();

  const path = `${folder}/z.zip`;
  const output = fs.createWriteStream(path);
  const closed = new Promise((resolve) => output.on("close", resolve));
  const items = [
    { type: "file", id: file.id },
    { type: "folder", id: made.id },
  ];
  const status = await client.files.downloadZip("z.zip", items, output);
  await closed;
  const archive = fs.readFileSync(path);

  const found = await client.search.query("goldeneye", { type: "file" });

  const group = await client.groups.create("Of three", { description: "three" });
  await client.groups.addUser(group.id, me.id, { role: client.groups.userRoles.MEMBER });
  const members = await client.groups.getMemberships(group.id);
  await client.collaborations.createWithGroupID(group.id, made.id, "viewer");
  const shared = await client.groups.getCollaborations(group.id);

  const template = await client.metadata.createTemplate(
    "Of three",
    [{ type: "string", key: "bird", displayName: "Bird" }],
    { templateKey: "ofThree" },
  );
  await client.files.addMetadata(file.id, "enterprise", "ofThree", { bird: "goldeneye" });
  await client.files.updateMetadata(file.id, "enterprise", "ofThree", [
    { op: "replace", path: "/bird", value: "smew" },
  ]);
  const all = await client.files.getAllMetadata(file.id);
  const queried = await client.metadata.query(`${template.scope}.ofThree`, "0", {
    query: "bird = :bird",
    query_params: { bird: "smew" },
    fields: ["name"],
  });
  await client.folders.addMetadata(made.id, "enterprise", "ofThree", { bird: "smew" });
  const policy = await client.metadata.createCascadePolicy("enterprise", "ofThree", made.id);
  const policies = await client.metadata.getCascadePolicies(made.id);

  const task = await client.tasks.create(file.id, { message: "look" });
  await client.tasks.assignByUserID(task.id, me.id);
  const assignments = await client.tasks.getAssignments(task.id);

  const webhook = await client.webhooks.create(made.id, "folder", "https://receiver.example.com/in", [
    client.webhooks.triggerTypes.FILE.UPLOADED,
  ]);
  const webhooks = await client.webhooks.getAll();

  const favorites = (await client.collections.getAll()).entries[0];
  await client.files.addToCollection(file.id, favorites.id);
  const favored = await client.collections.getItems(favorites.id);

  const events = await client.events.get({ stream_position: 0, stream_type: "all" });
  return {
    me: me.id,
    downloaded,
    archive: [archive.subarray(0, 2).toString(), archive.includes("from three.txt"), status.state],
    found: found.entries.map((one) => one.name),
    members: members.entries.map((one) => one.user.id),
    shared: shared.entries.map((one) => [one.role, one.item.name]),
    metadata: all.entries.map((one) => one.bird),
    queried: queried.entries.map((one) => one.name),
    policies: policies.entries.map((one) => one.id === policy.id),
    assigned: assignments.entries.map((one) => one.assigned_to.id),
    webhooks: webhooks.entries.map((one) => one.id === webhook.id),
    favored: favored.entries.map((one) => one.name),
    events: [...new Set(events.entries.map((one) => one.event_type))].sort(),
  };
}

story().then(
  (told) => console.log(JSON.stringify(told)),
  (error) => {
    console.error(error.response ? JSON.stringify(error.response.body) : "", error);
    process.exit(1);
  },
);
