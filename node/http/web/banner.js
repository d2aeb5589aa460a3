/* What is wrong at present, in sentences above the page: each subject has one line, and a line goes when its subject is
   well again. The page below keeps what it has. */

import { session } from "./api.js";
import { fill, h, icon, setText } from "./dom.js";
import { clock } from "./format.js";

const lines = new Map();
let silentSince = null;

/* Shows a sentence for a subject. `kind`: "error" or "note". */
export function show(subject, text, kind = "note", button = null) {
  let line = lines.get(subject);
  if (!line || line.kind !== kind || Boolean(line.button) !== Boolean(button)) {
    line = { kind, button, text: h("span"), element: null };
    line.element = h("p", { class: `banner banner-${kind}` }, icon("warning"), line.text,
      button && h("button", { type: "button", class: "small", onclick: () => line.button.act() }, button.title));
    lines.set(subject, line);
  }
  line.button = button;
  setText(line.text, text);
  draw();
}

export function clear(subject) {
  if (lines.delete(subject)) {
    draw();
  }
}

/* A request that failed: the node is silent, the session is over, or the node refused. */
export function report(subject, problem, again) {
  if (problem.name === "AbortError") {
    return;
  }
  const retry = again && { title: "Try now", act: again };
  if (problem.status === 0) {
    silentSince ??= Date.now();
    show("silent", `${session.node} has not answered since ${clock(
      silentSince)}. This page shows what it said last, and goes on `
      + "by itself once the node is back; any other node of the mesh shows the same.", "error", retry);
  } else if (problem.status === 401) {
    session.open = false;
    show("session", `This session with ${session.node} is over. The command "shoal open" on that machine opens a new one.`,
      "error");
  } else {
    show(subject, problem.message, "error", retry);
  }
}

/* A request that was answered: the node is not silent, and knows the session. */
export function answered(subject) {
  silentSince = null;
  for (const one of [subject, "silent", "session"]) {
    clear(one);
  }
}

export function missingPoints(labels) {
  if (labels.length === 0) {
    clear("points");
    return;
  }
  show("points", `Points that only ${labels.join(", ")} ${labels.length === 1 ? "holds"
    : "hold"} are missing: no answer from there.`);
}

function draw() {
  const seen = new Set();
  const elements = [];
  for (const line of lines.values()) {
    if (!seen.has(line.text.textContent)) {
      seen.add(line.text.textContent);
      elements.push(line.element);
    }
  }
  fill(document.getElementById("banner"), elements);
}

/* What the node says about itself (the document `status`). */
export function fromStatus(status) {
  const say = (subject, wrong, text, kind) => (wrong ? show(subject, text, kind) : clear(subject));
  const node = status.node.label;
  say("syncing", status.syncing, `${node} is still catching up with the mesh: lists may lack entries.`);
  say("disk", status.disk_full, `The disk of ${node} is full: it grants no slots.`, "error");
  say("memory", status.memory_full, `${node} is short of memory for experiments: nothing new begins there.`, "error");
  say("clock", status.clock_ahead_s > 0, `The clock of ${node} is ${status.clock_ahead_s} s ahead of the mesh.`);
  say("twin", status.twin, status.twin ? `Another daemon runs at ${status.twin.address} with the key of ${node}.` : "",
    "error");
  const blocked = status.blocked ?? [];
  say("blocked", blocked.length > 0, blocked.slice(0, 3).map((b) => b.text).join(" ")
    + (blocked.length > 3 ? ` And ${blocked.length - 3} more.` : ""));
}
