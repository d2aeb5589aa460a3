/* Usage: what the slots of the mesh were used for, by which user and when, whatever has been deleted since. */

import { get } from "./api.js";
import { fill, h, name, setText } from "./dom.js";
import { duration } from "./format.js";
import { repeat } from "./live.js";
import { setQuery } from "./router.js";
import { Table } from "./table.js";

const ASK_MS = 30000;
const DAY_S = 86400;
const SPANS = [["week", "7 days", 7], ["month", "30 days", 30], ["year", "1 year", 365]];
const LONGEST_DAYS = 35; /* further back there are whole months only */
const KEYS = [["user", "User"], ["label", "Label"], ["model", "Model"], ["node", "Node"]];

export function open(_, query) {
  const page = new UsagePage(query);
  return { title: "Usage", element: page.element, close: () => page.close() };
}

class UsagePage {
  constructor(query) {
    this.span = SPANS.find(([id]) => id === query.get("span")) ?? SPANS[1];
    this.key = KEYS.find(([id]) => id === query.get("by")) ?? KEYS[0];
    this.spans = h("div", { class: "buttons", role: "group", "aria-label": "Window of time" });
    this.keys = h("div", { class: "buttons", role: "group", "aria-label": "Told apart by" });
    this.total = h("p", { class: "quiet" });
    this.note = h("p", { class: "note", hidden: true });
    this.sums = table("Usage", "No slot was used in this window.", this.key[1], { id: "used", descending: true });
    this.times = table("Usage over time", "No slot was used in this window.", "Day", { id: "what", descending: true });
    this.element = h("div", {}, h("div", { class: "page-head" }, h("h1", {}, "Usage")),
      h("div", { class: "row" }, this.spans, this.keys, this.total), this.note, this.sums.element,
      h("h2", {}, "Over time"), this.times.element);
    this.drawChoices();
    this.poll = repeat(ASK_MS, () => this.load());
  }

  drawChoices() {
    const choices = (rows, field, standard) => rows.map((row) => h("button", { type: "button", class: "small toggle",
      "aria-pressed": String(row === this[field]), onclick: () => {
        this[field] = row;
        setQuery({ [field === "key" ? "by" : field]: row === standard ? null : row[0] });
        this.drawChoices();
        this.poll.now();
      } }, row[1]));
    fill(this.spans, choices(SPANS, "span", SPANS[1]));
    fill(this.keys, choices(KEYS, "key", KEYS[0]));
  }

  async load() {
    const [, , days] = this.span;
    const [key, title] = this.key;
    const since = Math.max(1, Math.floor(Date.now() / 1000) - (days - 1) * DAY_S);
    const time = days <= LONGEST_DAYS ? "day" : "month";
    const [sums, times] = await Promise.all([get("/usage/totals", { by: key, since_s: since }),
      get("/usage/totals", { by: time, since_s: since })]);
    const from = new Date(sums.since_s * 1000).toISOString().slice(0, 10);
    setText(this.total, `${duration(sumOf(sums.usage))} of slots since ${from} UTC`);
    this.note.hidden = sums.uncounted.length === 0;
    setText(this.note, `The slots of ${sums.uncounted.join(", ")} are not counted: the version there is too old.`);
    this.sums.setColumns(columns(title));
    this.sums.setRows(rowsOf(sums.usage, (row) => (key === "node" ? row.node_label : row[key])));
    this.times.setColumns(columns(time === "day" ? "Day (UTC)" : "Month (UTC)"));
    this.times.setRows(rowsOf(times.usage, (row) => row[time]));
  }

  close() {
    this.poll.stop();
  }
}

function table(label, empty, title, sort) {
  return new Table({ label, filterable: false, keyOf: (row) => row.what, sort, empty, columns: columns(title) });
}

/* Bars are as long as a row's part of the largest one. Two nodes may have had one label: their time is one row. */
function rowsOf(usage, textOf) {
  const rows = new Map();
  for (const one of usage) {
    const what = textOf(one);
    const row = rows.get(what) ?? { what, used: 0, lost: 0 };
    row.used += one.used_s;
    row.lost += one.lost_s;
    rows.set(what, row);
  }
  const all = [...rows.values()];
  const total = sumOf(usage);
  const most = Math.max(0, ...all.map((row) => row.used));
  return all.map((row) => ({ ...row, part: total > 0 ? row.used / total : 0, bar: most > 0 ? row.used / most : 0 }));
}

function sumOf(usage) {
  return usage.reduce((sum, row) => sum + row.used_s, 0);
}

function percent(row) {
  return `${(100 * row.part).toFixed(1)} %`;
}

function shareCell(row) {
  return h("div", { class: "meter" }, h("span", {}), h("span", { class: "meter-bar usage-bar", "aria-hidden": "true" },
    h("span", { class: "meter-fill", style: { width: `${(100 * row.bar).toFixed(1)}%` } })), h("span", {}, percent(row)));
}

const LOST_HINT = "Behind the last checkpoint of attempts that failed or were lost";

const columns = (title) => [
  { id: "what", title, value: (row) => row.what, text: (row) => row.what || "–", cell: (row) => name(row.what || "–") },
  { id: "used", title: "Slot time", numeric: true, value: (row) => row.used, text: (row) => duration(row.used) },
  { id: "part", title: "Share", minor: true, value: (row) => row.part, cell: shareCell,
    text: (row) => `${percent(row)} ${row.bar.toFixed(3)}` },
  { id: "lost", title: "Lost", numeric: true, minor: true, hint: LOST_HINT, value: (row) => row.lost,
    text: (row) => duration(row.lost) },
];
