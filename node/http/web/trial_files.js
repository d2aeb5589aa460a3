/* What a trial has left: checkpoints and outputs with the nodes that hold copies, and the files themselves. */

import { get, path, url } from "./api.js";
import * as banner from "./banner.js";
import { fill, h, icon, name } from "./dom.js";
import { bytes, whole } from "./format.js";
import { repeat } from "./live.js";
import { plainTable } from "./table.js";
import { Outputs } from "./trial_outputs.js";

const ASK_MS = 5000;
const NODES_MAX = 24; /* columns of the map of copies */

export function filesPart({ id, index }) {
  const address = `/experiments${path(id)}/trials${path(index)}`;
  const place = h("div", {}, h("p", { class: "quiet" }, "Loading."));
  const files = new Outputs(address);
  let drawn = "";
  let replicas = null;
  const poll = repeat(ASK_MS, async () => {
    const [checkpoints, outputs] = await Promise.all([get(`${address}/checkpoints`).then((d) => d.checkpoints),
      outputsOf(address)]);
    const own = checkpoints.filter((one) => one.trial === undefined || String(one.trial) === String(index));
    const text = JSON.stringify([own, outputs, replicas]);
    if (text !== drawn) {
      drawn = text;
      fill(place, checkpointPanel(address, own, index), outputPanel(outputs), copiesPanel(own, outputs, replicas),
        files.element);
    }
    try {
      await files.update(outputs);
      banner.clear("files");
    } catch (problem) {
      banner.report("files", problem);
    }
  });
  return {
    element: place,
    update({ experiment }) {
      replicas = experiment.replicas;
    },
    close() {
      poll.stop();
      files.close();
      banner.clear("files");
    },
  };
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

function titleOf(one) {
  return one.path ? one.path : `step ${whole(one.step)}`;
}

function checkpointPanel(address, checkpoints, index) {
  const rows = checkpoints.map((one) => [one.path ? name(one.path) : titleOf(one), String(one.attempt ?? "–"),
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

/* Which node holds a copy of what: a row for each checkpoint and output, a column for each node that holds any. */
function copiesPanel(checkpoints, outputs, replicas) {
  const things = [...checkpoints.map((one) => [`Checkpoint ${titleOf(one)}`, one]),
    ...outputs.map((one) => [`Outputs of worker ${one.number}`, one])];
  const nodes = new Map(things.flatMap(([, one]) => (one.holders ?? []).map((holder) => [holder.node, holder.label])));
  if (nodes.size === 0) {
    return null;
  }
  const columns = [...nodes].sort(([, a], [, b]) => a.localeCompare(b, "en", { numeric: true })).slice(0, NODES_MAX);
  const rows = things.map(([title, one]) => {
    const has = new Set((one.holders ?? []).map((holder) => holder.node));
    return [title, replicas ? `${has.size} of ${replicas}` : String(has.size), ...columns.map(([node]) => (has.has(node)
      ? h("span", { class: "copy" }, icon("completed"), h("span", { class: "unseen" }, "a copy"))
      : h("span", { class: "quiet" }, "–")))];
  });
  return h("section", { class: "panel" }, h("h2", {}, "Where the copies are"),
    plainTable("Where the copies are", ["What", "Copies", ...columns.map(([, label]) => name(label))], rows, [1]));
}
