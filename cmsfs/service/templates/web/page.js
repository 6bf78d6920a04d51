// The script of the user pages: uploads with progress, and a button that copies a link.
// Without it everything but uploads works.
"use strict";

{% include "web/sha1.js" %}

{% include "web/part_uploads.js" %}

const box = document.querySelector("[data-upload]");
const list = box && box.querySelector(".transfers");
const waiting = [];
let running = 0;
let open = 0; // questions and errors that the user has not handled yet

function send(path, body, { method = "POST", headers = {}, progress = null, job = null } = {}) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open(method, `${box.dataset.at}/send/${path}`);
    request.setRequestHeader("X-Form-Proof", box.dataset.proof);
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    if (typeof body === "string") request.setRequestHeader("Content-Type", "application/json");
    if (progress) request.upload.onprogress = progress;
    request.onload = () => {
      let said = {};
      try { said = JSON.parse(request.responseText); } catch { /* a proxy's own page */ }
      resolve({ status: request.status, said, wait: Number(request.getResponseHeader("Retry-After")) });
    };
    request.onerror = () => reject(new Error("The connection broke."));
    request.onabort = () => reject(new Cancelled("Cancelled."));
    if (job && job.cancelled) throw new Cancelled("Cancelled.");
    if (job) job.cancel = () => request.abort();
    request.send(body);
  });
}

function button(words, label, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = words;
  made.setAttribute("aria-label", label);
  made.onclick = act;
  return made;
}

function row(file) {
  const item = document.createElement("li");
  const name = document.createElement("span");
  const state = document.createElement("span");
  const bar = document.createElement("progress");
  name.textContent = file.name;
  state.className = "soft";
  bar.max = 1;
  bar.value = 0;
  bar.setAttribute("aria-label", `Upload of ${file.name}`);
  const keys = document.createElement("span");
  item.append(name, " ", state, bar, keys);
  list.append(item);
  return { item, state, bar, keys };
}

function add(file, folder) {
  waiting.push({ file, folder, name: file.name, version: "", shown: row(file) });
  next();
}

function next() {
  while (running < 2 && waiting.length) upload(waiting.shift());
  // Show the updated folder once all uploads are done and all messages handled.
  if (!running && !waiting.length && !open && list.childElementCount) location.reload();
}

function show(job, bytes) {
  job.shown.bar.value = job.file.size ? bytes / job.file.size : 1;
  job.shown.state.textContent = `${Math.floor(100 * job.shown.bar.value)} %`;
}

async function uploadWhole(job) {
  const form = new FormData();
  const attributes = { name: job.name, content_modified_at: new Date(job.file.lastModified).toISOString() };
  if (job.version) delete attributes.name;
  else attributes.parent = { id: job.folder };
  form.append("attributes", JSON.stringify(attributes));
  form.append("file", job.file, job.file.name);
  const progress = ({ loaded, total }) => show(job, job.file.size * (loaded / total));
  const answer = await send(job.version ? `versions/${job.version}` : "file", form, { progress, job });
  if (answer.status !== 200 && answer.status !== 201) throw new Refused(answer);
}

async function upload(job) {
  running += 1;
  const { shown } = job;
  shown.keys.replaceChildren(button("Cancel", `Cancel ${job.name}`, () => {
    job.cancelled = true;
    if (job.cancel) job.cancel();
  }));
  try {
    await (job.file.size < box.dataset.inParts ? uploadWhole : uploadInParts)(job);
    shown.bar.value = 1;
    shown.state.textContent = "uploaded";
    shown.keys.replaceChildren();
  } catch (error) {
    if (error instanceof Cancelled && job.forget) job.forget();
    if (error.status === 409 && error.said.code === "item_name_in_use") ask(job, error.said);
    else fail(job, error.name === "NotReadableError" ? "The file has changed, or cannot be read." : error.message);
  }
  running -= 1;
  next();
}

function again(job) {
  open -= 1;
  job.cancelled = false;
  job.shown.state.textContent = "";
  job.shown.state.className = "soft";
  waiting.push(job);
  next();
}

function skip(job) {
  open -= 1;
  if (job.forget) job.forget();
  job.shown.item.remove();
  next();
}

function ask(job, said) {
  open += 1;
  const found = said.context_info && said.context_info.conflicts;
  const other = Array.isArray(found) ? found[0] : found;
  job.shown.state.textContent = "There is something of this name already.";
  const keys = [];
  if (other && other.type === "file") {
    keys.push(button("New version", `Upload ${job.name} as a new version`, () => {
      job.version = other.id;
      if (job.forget) job.forget(); // it was begun as a new file
      again(job);
    }));
  }
  keys.push(button("Keep both", `Keep both of ${job.name}`, () => {
    job.count = (job.count || 0) + 1;
    const dot = job.file.name.lastIndexOf(".");
    const [stem, end] = dot > 0 ? [job.file.name.slice(0, dot), job.file.name.slice(dot)] : [job.file.name, ""];
    job.name = `${stem} (${job.count})${end}`;
    again(job);
  }));
  keys.push(button("Skip", `Skip ${job.name}`, () => skip(job)));
  job.shown.keys.replaceChildren(...keys);
}

function fail(job, said) {
  open += 1;
  job.shown.state.textContent = said;
  job.shown.state.className = "failed";
  job.shown.keys.replaceChildren(
    button("Try again", `Try ${job.name} again`, () => again(job)),
    button("Dismiss", `Dismiss ${job.name}`, () => skip(job)),
  );
}

// Upload a dropped folder: create it, or use the existing one of that name; then upload its contents.
async function drop(entry, folder) {
  if (entry.isFile) {
    add(await new Promise((resolve, reject) => entry.file(resolve, reject)), folder);
    return;
  }
  const { status, said } = await send("folder", JSON.stringify({ name: entry.name, parent: { id: folder } }));
  const there = status === 409 && [].concat((said.context_info || {}).conflicts || [])[0];
  const id = status === 201 ? said.id : there && there.type === "folder" && there.id;
  if (!id) {
    fail({ name: entry.name, shown: row(entry) }, said.message || `The service answered ${status}.`);
    return;
  }
  const reader = entry.createReader();
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) break;
    for (const one of some) await drop(one, id);
  }
}

if (box) {
  const input = box.querySelector("input[type=file]");
  input.onchange = () => {
    for (const file of input.files) add(file, box.dataset.folder);
    input.value = "";
  };
  const page = document.documentElement;
  page.ondragover = (event) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    box.classList.add("over");
  };
  page.ondragleave = (event) => { if (!event.relatedTarget) box.classList.remove("over"); };
  page.ondrop = async (event) => {
    if (!event.dataTransfer.files.length && !event.dataTransfer.items.length) return;
    event.preventDefault();
    box.classList.remove("over");
    // The entries are readable only during this event; `running` prevents a reload while they are listed.
    const entries = [...event.dataTransfer.items].map((one) => one.webkitGetAsEntry && one.webkitGetAsEntry());
    const files = [...event.dataTransfer.files];
    running += 1;
    try {
      if (entries.length && entries.every(Boolean)) {
        for (const one of entries) await drop(one, box.dataset.folder);
      } else {
        for (const file of files) add(file, box.dataset.folder);
      }
    } finally {
      running -= 1;
      if (list.childElementCount) next();
      else if (entries.length) location.reload();
    }
  };
  window.onbeforeunload = (event) => { if (running || waiting.length) event.preventDefault(); };
}

for (const field of document.querySelectorAll("[data-copy]")) {
  const copy = button("Copy", "Copy the shared link", async () => {
    field.select();
    try {
      await navigator.clipboard.writeText(field.value);
    } catch {
      document.execCommand("copy"); // the clipboard API needs TLS
    }
    copy.textContent = "Copied";
  });
  field.after(copy);
}
