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
      h("h2", {}, "Decisions, in their order"), table.element);
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
  const rows = bracket.rungs.map((length, rung) => {
    const here = judged.filter((one) => one.bracket === place && one.rung === rung);
    const on = here.filter((one) => STAYS.has(one.decision)).length;
    const best = here.findLast((one) => one.place === 1);
    const part = (kind, count) => h("span", { class: `part part-${kind}`, style: { "flex-grow": count } });
    return [String(rung), `${whole(length)} ${search.unit}`, h("span", { class: "progress" },
      h("span", { class: "parts", "aria-hidden": "true" }, part("completed", on), part("stopped", here.length - on),
        part("queued", Math.max(0, bracket.trials - here.length))),
      h("span", { class: "count" }, String(here.length))), String(on), String(here.length - on),
        best ? number(best.metric) : "–"];
  });
  const title = `Bracket ${place}: ${plural(bracket.trials, "trial")}`;
  return h("section", { class: "panel" }, h("div", { class: "panel-head" }, h("h2", {}, title)),
    plainTable(title, ["Rung", "Length", "Judged", "Went on", "Stopped or paused", `Best ${search.metric}`], rows,
      [2, 4, 5, 6]));
}
