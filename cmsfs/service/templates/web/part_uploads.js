// Uploads of large files in parts: after a broken connection, or a reload of the page, they go on where they were.
const LONGEST_WAIT_SECONDS = 30;
const MOST_FAILURES = 8; // of one request, before the user is asked
const HASHED_AT_ONCE = 1 << 20; // bytes, so that the page stays responsive
const LISTED_AT_ONCE = 1000;

class Cancelled extends Error {}
class Refused extends Error {
  constructor({ status, said }) {
    super(said.message || `The service answered ${status}.`);
    this.status = status;
    this.said = said;
  }
}

const lasting = ({ status }) => status === 429 || status === 408 || status === 202 || status >= 500;

// Where this browser keeps the id of an unfinished upload: under a digest, so that nobody reads a name there.
function noteOf(job) {
  const { file, folder, version } = job;
  const what = [box.dataset.user, folder, version, file.name, file.size, file.lastModified].join("\n");
  return `cmsfs ${btoa(new Sha1().update(new TextEncoder().encode(what)).digest())}`;
}

function pause(job, seconds) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, seconds * 1000);
    window.addEventListener("online", resolve, { once: true });
    job.cancel = () => { clearTimeout(timer); reject(new Cancelled("Cancelled.")); };
  });
}

// The answer to a request that may be sent again: it is, while the connection or the service is away.
async function persist(job, method, path, body, headers, progress) {
  for (let failures = 0; ; failures += 1) {
    let answer;
    let wait = Math.min(2 ** failures, LONGEST_WAIT_SECONDS);
    let why = "The connection broke.";
    try {
      answer = await send(path, body, { method, headers, progress, job });
      if (!lasting(answer)) return answer;
      if (answer.status === 202) failures = 0;
      else why = answer.said.message || `The service answered ${answer.status}.`;
      wait = answer.wait || wait;
    } catch (error) {
      if (error instanceof Cancelled) throw error;
    }
    if (failures >= MOST_FAILURES) {
      throw new Error(`${why} What has arrived is kept: try again, or choose the file again later.`);
    }
    job.shown.state.textContent = answer && answer.status === 202 ? "Almost done." : `${why} Trying again.`;
    await pause(job, wait);
  }
}

async function ask_for(job, method, path, body, headers, progress) {
  const answer = await persist(job, method, path, body, headers, progress);
  if (answer.status >= 300) throw new Refused(answer);
  return answer.said;
}

async function arrived(job, id) {
  const found = [];
  for (;;) {
    const query = `offset=${found.length}&limit=${LISTED_AT_ONCE}`;
    const { entries, total_count: total } = await ask_for(job, "GET", `sessions/${id}/parts?${query}`);
    found.push(...entries);
    if (found.length >= total || !entries.length) return found;
  }
}

// The upload that an earlier visit began, or a new one: its id, the size of a part, and which have arrived.
async function begin(job) {
  const note = noteOf(job);
  const [id, size] = (localStorage.getItem(note) || "").split(" ");
  if (id) {
    try {
      return { id, note, size: Number(size), parts: await arrived(job, id) };
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      localStorage.removeItem(note); // ended, or too long ago
    }
  }
  const wish = { file_name: job.name, file_size: job.file.size };
  if (!job.version) wish.folder_id = job.folder;
  const path = job.version ? `versions/${job.version}/sessions` : "sessions";
  const made = await ask_for(job, "POST", path, JSON.stringify(wish));
  localStorage.setItem(note, `${made.id} ${made.part_size}`);
  return { id: made.id, note, size: made.part_size, parts: [] };
}

async function hash(bytes, ...into) {
  for (let at = 0; at < bytes.length; at += HASHED_AT_ONCE) {
    for (const one of into) one.update(bytes.subarray(at, at + HASHED_AT_ONCE));
    await new Promise((resolve) => setTimeout(resolve));
  }
}

const digest = (hashed) => ({ Digest: `sha=${btoa(hashed.digest())}` });

async function sendPart(job, session, at, bytes, hashed) {
  const range = `bytes ${at}-${at + bytes.length - 1}/${job.file.size}`;
  const headers = { ...digest(hashed), "Content-Range": range, "Content-Type": "application/octet-stream" };
  const progress = (event) => show(job, at + Math.min(event.loaded, bytes.length));
  const answer = await persist(job, "PUT", `sessions/${session.id}`, new Blob([bytes]), headers, progress);
  // It has arrived already: only the answer was lost.
  if (answer.status !== 200 && answer.said.code !== "range_overlaps_existing_part") throw new Refused(answer);
}

async function commit(job, session, whole) {
  const parts = (await arrived(job, session.id)).map(
    ({ part_id: id, offset, size }) => ({ part_id: id, offset, size }),
  );
  const attributes = { content_modified_at: new Date(job.file.lastModified).toISOString() };
  if (job.name !== job.file.name) attributes.name = job.name;
  const body = JSON.stringify({ parts, attributes });
  const path = `sessions/${session.id}/commit`;
  const answer = await persist(job, "POST", path, body, digest(whole));
  // A commit whose answer was lost has ended the upload.
  if (answer.status !== 201 && !(answer.status === 404 && parts.length)) throw new Refused(answer);
}

async function uploadInParts(job) {
  const session = await begin(job);
  job.forget = () => {
    localStorage.removeItem(session.note);
    send(`sessions/${session.id}`, undefined, { method: "DELETE" }).catch(() => {});
  };
  const there = new Set(session.parts.map((one) => one.offset));
  const whole = new Sha1();
  try {
    for (let at = 0; at < job.file.size; at += session.size) {
      const part = new Sha1();
      const bytes = new Uint8Array(await job.file.slice(at, at + session.size).arrayBuffer());
      await hash(bytes, whole, part);
      if (!there.has(at)) await sendPart(job, session, at, bytes, part);
      show(job, at + bytes.length);
    }
    await commit(job, session, whole);
  } catch (error) {
    // Other bytes than those of the earlier visit, or an upload that has ended: the next try begins anew.
    const { status, said } = error;
    if (status === 404 || status === 410 || (said && said.code === "bad_digest")) job.forget();
    throw error;
  }
  localStorage.removeItem(session.note);
}
