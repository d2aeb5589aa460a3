/* What a trial has left: checkpoints with the nodes that hold these, and outputs. */

import { get, path, url } from "./api.js";
import { fill, h, name } from "./dom.js";
import { bytes, whole } from "./format.js";
import { repeat } from "./live.js";
import { plainTable } from "./table.js";

const ASK_MS = 5000;

export function filesPart({ id, index }) {
  const address = `/experiments${path(id)}/trials${path(index)}`;
  const place = h("div", {}, h("p", { class: "quiet" }, "Loading."));
  let drawn = "";
  const poll = repeat(ASK_MS, async () => {
    const [checkpoints, outputs] = await Promise.all([get(`${address}/checkpoints`).then((d) => d.checkpoints),
      outputsOf(address)]);
    const own = checkpoints.filter((one) => one.trial === undefined || String(one.trial) === String(index));
    const text = JSON.stringify([own, outputs]);
    if (text !== drawn) {
      drawn = text;
      fill(place, checkpointPanel(address, own, index), outputPanel(outputs));
    }
  });
  return { element: place, close: () => poll.stop() };
}

/* A trial without outputs is answered with code 4. */
async function outputsOf(address) {
  try {
    return (await get(`${address}/outputs`)).outputs;
  } catch (problem) {
    if (problem.status === 404) {
      return [];
    }
    throw problem;
  }
}

function holders(list) {
  return (list ?? []).map((one) => one.label).join(", ") || "no living node";
}

function checkpointPanel(address, checkpoints, index) {
  const rows = checkpoints.map((one) => [one.path ? name(one.path) : `step ${whole(one.step)}`, String(one.attempt ?? "–"),
    bytes(one.bytes),
    one.durable ? "durable" : "not durable yet", holders(one.holders), one.parts ? `${one.parts} parts` : one.path
      || one.step === null ? "–"
      : h("a", { href: url(`${address}/checkpoints${path(one.step)}`), download: `trial-${index}-step-${one.step}` },
        "Download")]);
  return h("section", { class: "panel" }, h("h2", {}, "Checkpoints"), rows.length === 0 ? h("p", { class: "quiet" }, "None.")
    : plainTable("Checkpoints", ["Checkpoint", "Attempt", "Size", "Copies", "On", "File"], rows, [1, 2]));
}

function outputPanel(outputs) {
  const rows = outputs.map((one) => [String(one.number), String(one.attempt), whole(one.files), bytes(one.bytes),
    one.final ? "final" : "while it ran",
    one.durable ? "durable" : "not durable yet", holders(one.holders)]);
  return h("section", { class: "panel" }, h("h2", {}, "Outputs"), rows.length === 0 ? h("p", { class: "quiet" }, "None.")
    : plainTable("Outputs", ["Worker", "Attempt", "Files", "Size", "When", "Copies", "On"], rows, [1, 2, 3]));
}
