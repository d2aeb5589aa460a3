/* Experiments: a table of all, with what is done to many at once, and the place where a configuration is dropped. */

import { get, path, send } from "./api.js";
import { actionButton } from "./dialog.js";
import { fill, h, name } from "./dom.js";
import { ago, fullTime, number, toNumber } from "./format.js";
import { calm, follow, repeat } from "./live.js";
import { link, setQuery } from "./router.js";
import { Selection } from "./selection.js";
import { countsText, progress, stateBadge } from "./state.js";
import { submitBox } from "./submit.js";
import { Table } from "./table.js";

const LISTS_MS = 5000;

export function open(_, query) {
  const page = new ExperimentsPage(query);
  return { title: "Experiments", element: page.element, close: () => page.close() };
}

const COLUMNS = [
  { id: "name", title: "Name", value: (row) => row.name, text: nameText, cell: nameCell },
  { id: "state", title: "State", value: (row) => row.state, text: stateText, cell: stateCell },
  { id: "progress", title: "Trials", value: (row) => row.trials.total, text: (row) => countsText(row.trials),
    cell: (row) => progress(row.trials) },
  { id: "best", title: "Best", numeric: true, value: (row) => toNumber(row.best?.value), text: bestText, cell: bestCell },
  { id: "priority", title: "Priority", numeric: true, minor: true, value: (row) => row.priority },
  { id: "age", title: "Submitted", numeric: true, minor: true, value: (row) => row.submitted_s,
    text: (row) => ago(row.submitted_s),
    cell: (row) => h("time", { title: fullTime(row.submitted_s * 1000) }, ago(row.submitted_s)) },
  { id: "user", title: "User", minor: true, value: (row) => row.user ?? "" },
  { id: "labels", title: "Labels", minor: true, value: (row) => labelsOf(row).join(" "),
    cell: (row) => h("span", { class: "labels" }, labelsOf(row).map((text) => h("span", { class: "tag" }, name(text)))) },
  { id: "coordinator", title: "Coordinator", minor: true, value: (row) => row.coordinator_label },
];

function nameText(row) {
  return [row.name, row.id.slice(0, 4), row.description, row.pinned && "pinned"].filter(Boolean).join(" ");
}

function nameCell(row) {
  return h("div", { class: "title-cell" },
    h("a", { href: link(["experiments", row.id]) }, name(row.name)),
    h("span", { class: "quiet code-text" }, row.id.slice(0, 4)),
    row.pinned && h("span", { class: "tag" }, "pinned"),
    row.description && h("div", { class: "quiet small-text clip" }, name(row.description)));
}

function stateText(row) {
  return row.waiting ? `${row.state} waits: ${row.waiting}` : row.state;
}

function stateCell(row) {
  const waiting = row.waiting && h("div", { class: "quiet small-text clip", title: row.waiting }, row.waiting);
  return h("div", {}, stateBadge(row.state), waiting);
}

function bestText({ best }) {
  return best ? `${best.metric} ${number(best.value)} trial ${best.trial}` : "–";
}

function bestCell({ id, best }) {
  if (!best) {
    return "–";
  }
  const href = link(["experiments", id, "trials", best.trial]);
  return h("span", {}, h("a", { href, title: `Trial ${best.trial}` }, number(best.value)), " ",
    h("span", { class: "quiet small-text" }, name(best.metric)));
}

function labelsOf(row) {
  return Object.entries(row.labels ?? {}).map(([key, value]) => (value ? `${key}=${value}` : key));
}

class ExperimentsPage {
  constructor(query) {
    this.rows = [];
    this.selection = new Selection();
    this.archived = query.get("archived") === "1";
    this.table = new Table({
      label: "Experiments", columns: COLUMNS, keyOf: (row) => row.id, selection: this.selection, query,
      sort: { id: "age", descending: true }, onState: setQuery,
      empty: "No experiment yet. Drop a configuration here, or run: shoal submit experiment.yaml",
      filterHint: "Words, or comparisons such as state:failed, best<0.1, labels:vision",
    });
    this.bulk = h("div", { class: "bulk", hidden: true });
    this.selection.addEventListener("pick", () => this.drawBulk());
    const archived = h("input", { type: "checkbox", checked: this.archived, onchange: () => {
      this.archived = archived.checked;
      setQuery({ archived: this.archived ? "1" : null });
      this.draw();
    } });
    this.table.tools.append(h("label", { class: "check" }, archived, "Archived too"));
    this.submit = submitBox();
    this.element = h("div", {}, h("div", { class: "page-head" }, h("h1", {}, "Experiments"), this.submit.button), this.bulk,
      this.table.element);
    this.list = repeat(LISTS_MS, () => this.load());
    const soon = calm(500, () => this.list.now());
    this.stream = follow("/events", { follow: true, since_ms: Date.now() }, () => soon());
  }

  async load() {
    const document = await get("/experiments");
    this.rows = document.experiments;
    this.draw();
    this.drawBulk();
  }

  draw() {
    this.table.setRows(this.rows.filter((row) => this.archived || !row.archived));
  }

  picked() {
    return this.rows.filter((row) => this.selection.picked.has(row.id));
  }

  drawBulk() {
    const rows = this.picked();
    const text = rows.map((row) => `${row.id} ${row.state} ${row.archived}`).join();
    this.bulk.hidden = rows.length === 0;
    if (text === this.bulkText) {
      return;
    }
    this.bulkText = text;
    const many = rows.length === 1 ? `"${rows[0].name}"` : `${rows.length} experiments`;
    const act = (title, done, method, address, options = {}) =>
      actionButton(title, () => this.toAll(rows, method, address, done), { ...options, after: () => this.list.now() });
    fill(this.bulk, h("span", {}, `${rows.length} picked`),
      act("Pause", "paused", "POST", "/pause"),
      act("Resume", "resumed", "POST", "/resume"),
      act("Cancel", "cancelled", "POST", "/cancel", { danger: true, question: {
        title: `Cancel ${many}?`, text: "Running trials end; a cancelled experiment cannot be resumed.",
        confirm: "Cancel it", danger: true } }),
      act("Archive", "archived", "POST", "/archive"),
      act("Delete", "deleted", "DELETE", "", { danger: true, question: {
        title: `Delete ${many}?`, text: "Points, logs, checkpoints and outputs go with it, on every node, for good.",
        confirm: "Delete it", danger: true } }),
      h("button", { type: "button", class: "small", onclick: () => this.selection.clear() }, "Pick none"));
  }

  /* One after the other; the first refusal ends it, with its sentence. */
  async toAll(rows, method, address, done) {
    for (const row of rows) {
      await send(method, `/experiments${path(row.id)}${address}`);
      this.selection.pick(row.id, false);
    }
    return rows.length === 1 ? `"${rows[0].name}" is ${done}.` : `${rows.length} experiments are ${done}.`;
  }

  close() {
    this.list.stop();
    this.stream.close();
    this.submit.close();
  }
}
