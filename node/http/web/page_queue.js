/* Queue: which experiments wait for slots, in the order in which they get them, and what each waits for. */

import { get } from "./api.js";
import { h, name } from "./dom.js";
import { ago, fullTime } from "./format.js";
import { repeat } from "./live.js";
import { link, setQuery } from "./router.js";
import { Table } from "./table.js";

const ASK_MS = 3000;

export function open(_, query) {
  const table = new Table({ label: "Queue", columns: COLUMNS, keyOf: (row) => row.experiment, query, sort: { id: "position" },
    onState: setQuery, empty: "Nothing waits for slots." });
  const list = repeat(ASK_MS, async () => table.setRows((await get("/queue")).queue));
  const element = h("div", {}, h("div", { class: "page-head" }, h("h1", {}, "Queue")),
    h("p", { class: "quiet" }, "A slot that becomes free goes to the first trial that fits it. Paused experiments, and trials that a search "
      + "holds back, do not wait for slots."), table.element);
  return { title: "Queue", element, close: () => list.stop() };
}

const COLUMNS = [
  { id: "position", title: "Place", numeric: true, value: (row) => row.position },
  { id: "name", title: "Experiment", value: (row) => row.name, cell: (row) => h("div", { class: "title-cell" },
    h("a", { href: link(["experiments", row.experiment]) }, name(row.name)),
    h("span", { class: "quiet code-text" }, row.experiment.slice(0, 4))) },
  { id: "priority", title: "Priority", numeric: true, minor: true, value: (row) => row.priority },
  { id: "slots", title: "Slots", numeric: true, value: (row) => row.slots, text: slotsText },
  { id: "trials", title: "Trials", numeric: true, minor: true, value: (row) => row.trials },
  { id: "since", title: "Since", numeric: true, value: (row) => row.since_s, text: (row) => ago(row.since_s),
    cell: (row) => h("time", { title: fullTime(row.since_s * 1000) }, ago(row.since_s)) },
  { id: "reason", title: "Waits for", value: (row) => row.reason },
];

function slotsText({ slots, slots_min: least, kind }) {
  return `${least < slots ? `${least}–${slots}` : slots}${kind === "any" ? "" : ` ${kind}`}`;
}
