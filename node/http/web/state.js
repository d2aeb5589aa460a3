/* States of experiments, trials, nodes and slots: one word, one shape and one colour for each. */

import { h, icon } from "./dom.js";
import { whole } from "./format.js";

const KINDS = {
  running: "running", active: "running", alive: "completed", completed: "completed", failed: "failed", dead: "failed",
    evicted: "failed",
  paused: "paused", queued: "queued", waiting: "queued", cancelled: "cancelled", stopped: "stopped", stopping: "stopped",
  suspect: "warning", quarantined: "warning", left: "cancelled", void: "cancelled", free: "dot", reserved: "queued",
    leased: "running",
  releasing: "stopped", withheld: "paused", drained: "paused",
};

export function kindOf(state) {
  return KINDS[state] ?? "dot";
}

export function stateBadge(state, words = state) {
  const kind = kindOf(state);
  return h("span", { class: `state state-${kind}` }, icon(kind), words);
}

export function isOver(state) {
  return state === "completed" || state === "failed" || state === "cancelled" || state === "stopped";
}

/* How far an experiment is: counts of its trials as a bar of parts, with the words beside it. */
export function progress(counts) {
  const total = counts.total || 0;
  const over = counts.completed + counts.failed + counts.stopped + (counts.cancelled ?? 0);
  const part = (kind, count) => count > 0 && h("span", { class: `part part-${kind}`, style: { "flex-grow": count } });
  return h("span", { class: "progress" },
    h("span", { class: "parts", "aria-hidden": "true" },
      part("completed", counts.completed), part("stopped", counts.stopped + (counts.cancelled ?? 0)),
        part("failed", counts.failed),
      part("running", counts.running), part("queued", Math.max(0, total - over - counts.running))),
    h("span", { class: "count", title: countsText(counts) }, `${whole(over)}/${whole(total)}`));
}

export function countsText(counts) {
  return ["completed", "running", "queued", "paused", "stopped", "failed", "cancelled"].filter((state) => counts[state] > 0)
    .map((state) => `${whole(counts[state])} ${state}`).join(", ") || "no trials";
}
