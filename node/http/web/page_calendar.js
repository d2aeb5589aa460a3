/* Calendar: which experiment held which slot when, for a window of time that ends now or earlier. */

import { get } from "./api.js";
import { CalendarChart } from "./calendar_chart.js";
import { assignPlaces, swatch } from "./canvas.js";
import { fill, h, name, setText } from "./dom.js";
import { clock, duration, fullTime, whole } from "./format.js";
import { repeat } from "./live.js";
import { go, link, setQuery } from "./router.js";
import { Table } from "./table.js";

const ASK_MS = 10000;
const SPANS = [["hour", "1 hour", 3600], ["shift", "6 hours", 21600], ["day", "1 day", 86400], ["week", "1 week", 604800],
  ["month", "4 weeks", 2419200]];

export function open(_, query) {
  const page = new CalendarPage(query);
  return { title: "Calendar", element: page.element, close: () => page.close() };
}

class CalendarPage {
  constructor(query) {
    this.span = SPANS.find(([id]) => id === query.get("span")) ?? SPANS[2];
    this.until = Number(query.get("until")) || null; /* null: now */
    this.places = new Map();
    this.chart = new CalendarChart({ places: this.places,
      onOpen: (span) => go(["experiments", span.experiment, "trials", String(span.trial)]) });
    this.choices = h("div", { class: "buttons", role: "group", "aria-label": "Window of time" });
    this.moves = h("div", { class: "buttons" },
      this.button("Earlier", () => this.move(-1)), this.later = this.button("Later", () => this.move(1)),
      this.now = this.button("Now", () => this.show(null)));
    this.range = h("p", { class: "quiet" });
    this.note = h("p", { class: "note", hidden: true },
      "There is more in this window than the chart has: a shorter one shows all.");
    this.nothing = h("p", { class: "quiet", hidden: true }, "No slot was held in this window.");
    this.table = new Table({ label: "Experiments in this window", filterable: false, keyOf: (row) => row.id,
      sort: { id: "time", descending: true }, empty: "No experiment held a slot in this window.",
      columns: COLUMNS(this.places) });
    this.element = h("div", {}, h("div", { class: "page-head" }, h("h1", {}, "Calendar"), this.moves),
      h("div", { class: "row" }, this.choices, this.range), this.note,
      h("section", { class: "panel calendar", "aria-label": "Slots over time" }, this.nothing, this.chart.element),
      h("h2", {}, "Experiments in this window"), this.table.element);
    this.drawChoices();
    this.poll = repeat(ASK_MS, () => this.load());
  }

  button(title, act) {
    return h("button", { type: "button", class: "small", onclick: act }, title);
  }

  drawChoices() {
    fill(this.choices, SPANS.map(([id, title], i) => h("button", { type: "button", class: "small toggle",
      "aria-pressed": String(id === this.span[0]), onclick: () => {
        this.span = SPANS[i];
        setQuery({ span: id === "day" ? null : id });
        this.drawChoices();
        this.poll.now();
      } }, title)));
  }

  move(by) {
    const until = (this.until ?? Date.now() / 1000) + (by * this.span[2]) / 2;
    this.show(until > Date.now() / 1000 ? null : Math.round(until));
  }

  show(until) {
    this.until = until;
    setQuery({ until });
    this.poll.now();
  }

  async load() {
    const until = this.until ?? Math.round(Date.now() / 1000);
    const window = { from: until - this.span[2], until };
    const [{ calendar, cut }, { slots }] = await Promise.all([
      get("/calendar", { from_s: window.from, until_s: window.until }), get("/slots")]);
    this.later.disabled = this.now.disabled = this.until === null;
    this.note.hidden = !cut;
    this.nothing.hidden = calendar.length > 0;
    setText(this.range, `${clock(window.from * 1000)} to ${this.until === null ? "now" : clock(window.until * 1000)}`);
    this.range.title = `${fullTime(window.from * 1000)} to ${fullTime(window.until * 1000)}`;
    const sums = sumsOf(calendar, window);
    assignPlaces(this.places, sums.map((one) => one.id));
    this.chart.set(rowsOf(calendar, slots), window);
    this.table.setRows(sums);
  }

  close() {
    this.poll.stop();
    this.chart.close();
  }
}

/* A row for each slot of the mesh, and for those that held something and are gone. */
function rowsOf(calendar, slots) {
  const rows = new Map();
  const row = (node, index, label) => {
    const key = `${node}/${index}`;
    if (!rows.has(key)) {
      rows.set(key, { label: `${label}/${index}`, spans: [] });
    }
    return rows.get(key);
  };
  for (const slot of slots) {
    row(slot.node, slot.index, slot.node_label);
  }
  for (const span of calendar) {
    row(span.node, span.index, span.node_label).spans.push(span);
  }
  return [...rows.values()].sort((a, b) => a.label.localeCompare(b.label, "en", { numeric: true }));
}

function sumsOf(calendar, window) {
  const sums = new Map();
  for (const span of calendar) {
    const one = sums.get(span.experiment) ?? { id: span.experiment, name: span.name, time: 0, workers: 0, slots: new Set(),
      from: Infinity, until: 0 };
    one.time += Math.max(0, Math.min(span.until_s, window.until) - Math.max(span.from_s, window.from));
    one.workers += span.workers;
    one.slots.add(`${span.node}/${span.index}`);
    one.from = Math.min(one.from, span.from_s);
    one.until = Math.max(one.until, span.until_s);
    sums.set(span.experiment, one);
  }
  return [...sums.values()].sort((a, b) => b.time - a.time);
}

const COLUMNS = (places) => [
  { id: "name", title: "Experiment", value: (row) => row.name, text: (row) => `${row.name} ${places.get(row.id)}`,
    cell: (row) => h("span", { class: "swatch-name" }, swatch(places.get(row.id)),
      h("a", { href: link(["experiments", row.id]) }, name(row.name))) },
  { id: "time", title: "Slot time", numeric: true, value: (row) => row.time, text: (row) => duration(row.time) },
  { id: "slots", title: "Slots", numeric: true, value: (row) => row.slots.size },
  { id: "workers", title: "Workers", numeric: true, value: (row) => row.workers, text: (row) => whole(row.workers) },
  { id: "from", title: "First", numeric: true, minor: true, value: (row) => row.from,
    text: (row) => clock(row.from * 1000) },
  { id: "until", title: "Last", numeric: true, minor: true, value: (row) => row.until,
    text: (row) => clock(row.until * 1000) },
];
