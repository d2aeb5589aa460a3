/* The trials of an experiment: curves of the best or the picked ones, and the table with the hyperparameters that differ. */

import { CurvePanel } from "./curve_panel.js";
import { TrialCurves } from "./trial_curves.js";
import { fill, h, name, setText } from "./dom.js";
import { ago, duration, number, parameter, whole } from "./format.js";
import { compare, flatten } from "./hyperparameters.js";
import { menu } from "./menu.js";
import { latest } from "./metrics.js";
import { link, setQuery } from "./router.js";
import { stateBadge } from "./state.js";
import { Table } from "./table.js";

const BEST_RUNS = 8;
const COLUMNS_MAX = 8; /* of hyperparameters, before the user asks for more */
const STATES = ["completed", "running", "queued", "paused", "stopping", "stopped", "failed", "cancelled"];
const COLUMN_OF = { metric: "metric", state: "state", step: "step", started_s: "started" }; /* by what the node sorts by */

export function trialsPart(context) {
  return new TrialsPart(context);
}

class TrialsPart {
  constructor({ id, selection, query, pages }) {
    Object.assign(this, { id, selection, pages });
    this.table = new Table({ label: "Trials", columns: [indexColumn(id)], keyOf: (row) => String(row.index), selection,
      query, onState: setQuery,
      empty: "No trial yet.", sort: { id: "index" }, filterHint: "Words, or comparisons such as state:running, lr<0.01" });
    this.chooser = h("div", { class: "choices" });
    this.compareLink = h("a", { class: "button small", hidden: true }, "Compare");
    this.none = h("button", { type: "button", class: "small", hidden: true, onclick: () => selection.clear() }, "Pick none");
    this.whole = loadAllButton(pages);
    this.table.tools.append(menu("Columns", this.chooser), this.compareLink, this.none, this.whole);
    this.note = h("p", { class: "quiet small-text" });
    this.panelPlace = h("div");
    this.element = h("div", {}, this.panelPlace, this.note, this.table.element);
    this.onPick = () => this.drawPicked();
    selection.addEventListener("pick", this.onPick);
  }

  update(experiment) {
    this.experiment = experiment;
    this.setRemote(experiment);
    this.rows = experiment.trials.map((trial) => ({ ...trial, flat: flatten(trial.hyperparameters),
      value: latest(trial.metrics, experiment.metric) }));
    this.setColumns();
    this.table.setRows(this.rows);
    this.makePanel();
    this.drawPicked();
  }

  /* Of a large experiment one page of trials is here, in the order that the node made. */
  setRemote({ trials, counts, matching }) {
    const isPart = trials.length < counts.total;
    this.table.setRemote(isPart ? { count: matching ?? counts.total, total: counts.total, ask: this.pages.ask,
      choices: STATES, states: this.pages.now().states, where: this.pages.now().where } : null);
    this.whole.hidden = !isPart;
    const { sort, descending } = this.pages.now();
    if (isPart && this.order !== `${sort} ${descending}`) {
      this.order = `${sort} ${descending}`;
      this.table.sort = sort?.startsWith("hp.") ? sort : COLUMN_OF[sort] ?? "index";
      this.table.descending = Boolean(descending);
      this.table.drawHead();
    }
    this.wasPart = isPart;
  }

  setColumns() {
    const { differing, same } = compare(this.rows.map((row) => row.flat));
    const names = [...differing, ...Object.keys(same)];
    const text = JSON.stringify(names);
    if (text !== this.namesText) {
      this.namesText = text;
      this.visible = new Set(differing.slice(0, COLUMNS_MAX));
      fill(this.chooser, names.length === 0 && h("p", { class: "quiet" }, "No hyperparameters."), names.map((one) => {
        const box = h("input", { type: "checkbox", checked: this.visible.has(one), onchange: () => {
          this.visible[box.checked ? "add" : "delete"](one);
          this.table.setColumns(this.columns(names));
          this.table.setRows(this.rows);
        } });
        return h("label", { class: "check" }, box, name(one));
      }));
    }
    this.table.setColumns(this.columns(names));
  }

  columns(names) {
    const metric = this.experiment.metric;
    return [
      indexColumn(this.id),
      { id: "state", title: "State", remote: "state", value: (row) => row.state, text: stateText, cell: stateCell },
      { id: "metric", title: metric ?? "metric", remote: "metric", numeric: true, value: (row) => row.value,
        text: (row) => number(row.value), hint: "The newest value" },
      { id: "step", remote: "step", title: "Step", numeric: true, value: (row) => row.step, text: (row) => whole(row.step) },
      ...names.filter((one) => this.visible.has(one)).map((one) => ({ id: `hp.${one}`, remote: `hp.${one}`, title: one,
        numeric: this.rows.some((row) => typeof row.flat[one] === "number"),
        value: (row) => row.flat[one], text: (row) => parameter(row.flat[one]) })),
      { id: "restarts", title: "Restarts", numeric: true, minor: true, value: (row) => row.restarts ?? 0 },
      { id: "started", remote: "started_s", title: "Began", numeric: true, minor: true, value: (row) => row.started_s,
        text: (row) => (row.started_s ? ago(row.started_s) : "–") },
      { id: "took", title: "Took", numeric: true, minor: true, value: took, text: (row) => duration(took(row)) },
      { id: "nodes", title: "On", minor: true, value: (row) => places(row) },
      { id: "checkpoint", title: "Checkpoint", numeric: true, minor: true, value: (row) => row.checkpoint?.step ?? null,
        text: checkpointText },
    ];
  }

  makePanel() {
    if (!this.curves) {
      this.panel = new CurvePanel({ title: this.experiment.metric ?? "metric", selection: this.selection,
        onZoom: (range) => this.curves.zoom(range) });
      this.curves = new TrialCurves(this.panel, () => this.experiment.metric);
      fill(this.panelPlace, this.panel.element);
    }
  }

  /* Curves of the picked trials, or of the best ones while none is picked. */
  drawPicked() {
    const picked = [...this.selection.picked];
    this.compareLink.hidden = picked.length < 2;
    this.none.hidden = picked.length === 0;
    this.compareLink.href = link(["compare"], { runs: picked.map((index) => `${this.id}/${index}`).join(",") });
    setText(this.compareLink, `Compare ${picked.length}`);
    if (!this.curves) {
      return;
    }
    const byIndex = new Map(this.rows.map((row) => [String(row.index), row]));
    const rows = picked.length > 0 ? picked.map((index) => byIndex.get(index)).filter(Boolean) : this.best();
    setText(this.note, this.noteText(picked.length, rows.length));
    this.curves.setTrials(rows.map((row) => ({ key: String(row.index), experiment: this.id, trial: row.index,
      title: `trial ${row.index}`, href: link(["experiments", this.id, "trials", row.index]),
      version: `${row.step} ${row.attempt} ${row.state}` })));
  }

  noteText(picked, shown) {
    if (shown === 0 || picked > 0) {
      return shown === 0 ? "" : "Curves of the picked trials.";
    }
    const which = shown === 1 ? "first trial" : `${shown} best trials`;
    return `Curves of the ${which} ${this.wasPart ? "of this page" : "so far"}; pick others in the table.`;
  }

  best() {
    const turned = this.experiment.smaller_is_better ? 1 : -1;
    const begun = this.rows.filter((row) => row.value !== null);
    const rank = (row) => (Number.isNaN(row.value) ? Infinity : turned * row.value);
    return begun.sort((a, b) => rank(a) - rank(b)).slice(0, BEST_RUNS);
  }

  close() {
    this.panel?.close();
    this.curves?.close();
    this.selection.removeEventListener("pick", this.onPick);
  }
}

export function loadAllButton(pages) {
  return h("button", { type: "button", class: "small", hidden: true,
    title: "To filter by words, and for the charts", onclick: () => pages.all() }, "Load all trials");
}

function indexColumn(id) {
  return { id: "index", title: "Trial", remote: "index", value: (row) => row.index, cell: (row) =>
    h("a", { href: link(["experiments", id, "trials", row.index]) }, String(row.index)) };
}

function stateText(row) {
  return [row.reason ? `${row.state}: ${row.reason}` : row.state, row.description].filter(Boolean).join(" ");
}

function stateCell(row) {
  const reason = row.reason && h("div", { class: "quiet small-text clip", title: row.reason }, row.reason);
  const note = row.description && h("div", { class: "small-text clip", title: row.description }, name(row.description));
  return h("div", {}, stateBadge(row.state), reason, note);
}

function checkpointText({ checkpoint }) {
  return checkpoint ? `step ${whole(checkpoint.step)}${checkpoint.durable ? "" : ", not durable"}` : "–";
}

function took(row) {
  return row.started_s ? (row.ended_s ?? Date.now() / 1000) - row.started_s + (row.before_s ?? 0) : row.before_s || null;
}

function places(row) {
  return [...new Set((row.slots ?? []).map((slot) => slot.node_label))].join(", ");
}
