/* The rungs of a search that stops trials early: how many trials reached each length, which went on, and the latest
   decisions. */

import { get, path } from "./api.js";
import { fill, h } from "./dom.js";
import { number, plural, whole } from "./format.js";
import { repeat } from "./live.js";
import { link } from "./router.js";
import { Table, plainTable } from "./table.js";

const ASK_MS = 5000;
const STAYS = new Set(["goes on", "promotes", "top"]);

export function rungsPart({ id, latest }) {
  const place = h("div", {}, h("p", { class: "quiet" }, "Loading."));
  const table = new Table({ label: "Decisions", keyOf: (row) => row.key, sort: { id: "order", descending: true },
    empty: "No decision yet.", columns: [
    { id: "order", title: "No.", numeric: true, value: (row) => row.order },
    { id: "trial", title: "Trial", value: (row) => row.trial, cell: (row) =>
      h("a", { href: link(["experiments", id, "trials", row.trial]) }, String(row.trial)) },
    { id: "decision", title: "Decision", value: (row) => row.decision },
    { id: "metric", title: "Metric", numeric: true, value: (row) => Number(row.metric), text: (row) => number(row.metric) },
    { id: "length", title: "Length", numeric: true, value: (row) => row.length, text: (row) => whole(row.length) },
    { id: "place", title: "Place", numeric: true, value: (row) => row.place, text: (row) => `${row.place} of ${row.of}` },
    { id: "bracket", title: "Bracket", numeric: true, minor: true, value: (row) => row.bracket },
    { id: "rung", title: "Rung", numeric: true, minor: true, value: (row) => row.rung },
  ] });
  let drawn = "";
  const draw = (search) => {
    const text = JSON.stringify(search);
    if (text === drawn) {
      return;
    }
    drawn = text;
    const judged = search.judged.map((one, i) => ({ ...one, order: i + 1, key: `${i}` }));
    fill(place, search.brackets.map((bracket, at) => bracketPanel(bracket, at, judged, search)),
      h("h3", {}, "Decisions, in their order"), table.element);
    table.setRows(judged);
  };
  const poll = repeat(ASK_MS, async () => {
    try {
      draw((await get(`/experiments${path(id)}/rungs`)).search);
    } catch (problem) {
      if (problem.status === 0 || problem.status === 401 || problem.code !== 1) {
        throw problem;
      }
      fill(place, h("p", { class: "quiet" }, "The searcher of this experiment stops no trials early, so there are no rungs.",
        latest() ? ` It has ${plural(latest().counts.total, "trial")}.` : ""));
      poll.stop();
    }
  });
  return { element: place, close: () => poll.stop() };
}

function bracketPanel(bracket, place, judged, search) {
  const rows = bracket.rungs.map((rung, i) => {
    const here = judged.filter((one) => one.bracket === place && one.rung === i);
    const on = here.filter((one) => STAYS.has(one.decision)).length;
    const best = here.find((one) => one.place === 1);
    return [String(i), `${whole(rung.length)} ${search.unit}`, whole(rung.trials), h("span", { class: "progress" },
      h("span", { class: "parts", "aria-hidden": "true" }, h("span", { class: "part part-completed",
        style: { "flex-grow": on } }),
        h("span", { class: "part part-stopped", style: { "flex-grow": here.length - on } }),
        h("span", { class: "part part-queued", style: { "flex-grow": Math.max(0, rung.trials - here.length) } })),
      h("span", { class: "count" }, String(here.length))), String(on), String(here.length - on),
        best ? number(best.metric) : "–"];
  });
  const title = `Bracket ${place}: ${plural(bracket.trials, "trial")}`;
  return h("section", { class: "panel" }, h("div", { class: "panel-head" }, h("h3", {}, title)),
    plainTable(title, ["Rung", "Length", "Planned", "Judged", "Went on", "Stopped or paused", `Best ${search.metric}`], rows,
      [2, 4, 5, 6]));
}
