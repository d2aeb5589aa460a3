/* Requests to the node that served this page. */

export const session = { node: "this node", mesh: null, readOnly: true, csrf: "", open: false };

/* A refusal of the node, or its silence (status 0). `message` is a sentence for people. */
class Problem extends Error {
  constructor(status, message, code = null) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export function url(path, query = {}) {
  const asked = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined) {
      asked.set(name, String(value));
    }
  }
  const text = asked.toString();
  return `/api/v1${path}${text ? `?${text}` : ""}`;
}

/* A path from parts, each of them escaped. */
export function path(...parts) {
  return parts.map((part) => `/${encodeURIComponent(part)}`).join("");
}

async function ask(method, address, options) {
  let answer;
  try {
    answer = await fetch(address, { method, credentials: "same-origin", cache: "no-store", ...options });
  } catch (error) {
    if (error.name === "AbortError") {
      throw error;
    }
    throw new Problem(0, `${session.node} does not answer.`);
  }
  if (!answer.ok) {
    throw await problemOf(answer);
  }
  return answer;
}

async function problemOf(answer) {
  let said = {};
  try {
    said = await answer.json();
  } catch {
    /* An answer that is no JSON does not come from a node; its status has to do. */
  }
  return new Problem(answer.status, said.detail || said.title || `${session.node} answered with status ${answer.status}.`,
    said.code);
}

/* One document. */
export async function get(address, query, signal) {
  const answer = await ask("GET", url(address, query), { signal, headers: { Accept: "application/json" } });
  return answer.json();
}

/* The text of a blob. */
export async function getText(address, query, signal) {
  return (await ask("GET", url(address, query), { signal })).text();
}

/* The bytes of a blob. */
export async function getBytes(address, query) {
  return new Uint8Array(await (await ask("GET", url(address, query), {})).arrayBuffer());
}

/* A request that changes something. */
export async function send(method, address, body = {}) {
  const answer = await ask(method, url(address), {
    headers: { "Content-Type": "application/json", Accept: "application/json", "X-Shoal-CSRF": session.csrf },
    body: JSON.stringify(body),
  });
  const text = await answer.text();
  return text ? JSON.parse(text) : {};
}

/* Learns which node this is and what this session may do. */
export async function loadSession() {
  const document = await get("/session");
  Object.assign(session, { node: document.label ?? document.name, mesh: document.mesh, readOnly: document.read_only,
    csrf: document.csrf, open: true });
}
