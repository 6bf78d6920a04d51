// Keeps what is on the page as it is at the drive: values by their names, and the list of transfers.
"use strict";

const main = document.querySelector("[data-live-at]");

function said(name, value) {
  for (const one of document.querySelectorAll(`[data-live="${name}"]`)) {
    if (one.textContent !== String(value)) one.textContent = value;
  }
}

function row(one) {
  const item = document.createElement("li");
  const way = document.createElement("span");
  way.className = "way";
  way.textContent = one.way === "up" ? "Uploading" : "Downloading";
  const path = document.createElement("span");
  path.className = "path";
  path.textContent = one.path;
  const bar = document.createElement("progress");
  bar.max = 100;
  bar.value = one.percent;
  bar.setAttribute("aria-label", one.path);
  const small = document.createElement("small");
  small.textContent = [one.done, one.rate, one.left].filter(Boolean).join(" · ");
  item.append(way, " ", path, bar, small);
  return item;
}

function show(now) {
  for (const name of ["state", "reason", "waiting", "bytes", "attention"]) said(name, now[name]);
  for (const one of document.querySelectorAll("header .state")) one.dataset.kind = now.kind;
  for (const list of document.querySelectorAll("[data-transfers]")) {
    list.replaceChildren(...now.transfers.map(row));
  }
  for (const none of document.querySelectorAll("[data-none]")) none.hidden = now.transfers.length > 0;
}

if (main) {
  const source = new EventSource(main.dataset.liveAt);
  source.onmessage = (event) => show(JSON.parse(event.data));
  source.onerror = () => said("state", "The drive does not answer");
}

// Who is asked before something is lost.
document.addEventListener("submit", (event) => {
  const question = event.target.dataset.ask;
  if (question && !window.confirm(question)) event.preventDefault();
});

// What can be copied is, where the browser can.
for (const one of document.querySelectorAll("[data-copy]")) {
  one.hidden = !navigator.clipboard;
  one.addEventListener("click", async () => {
    await navigator.clipboard.writeText(one.dataset.copy);
    one.textContent = "Copied";
  });
}
for (const one of document.querySelectorAll("[data-copied]")) {
  one.addEventListener("focus", () => one.select());
}
