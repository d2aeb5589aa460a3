/* Charts over all trials of an experiment: parallel coordinates, and one value against another. */

import { h, fill, name } from "./dom.js";
import { compare, flatten } from "./hyperparameters.js";
import { latest } from "./metrics.js";
import { loadAllButton } from "./experiment_trials.js";
import { Parallel } from "./parallel.js";
import { go } from "./router.js";
import { Scatter } from "./scatter.js";
import { Table } from "./table.js";
import { number, parameter, whole } from "./format.js";
import { link } from "./router.js";
import { stateBadge } from "./state.js";

const AXES_MAX = 8;
const DRAWN_MAX = 10000;

export function chartsPart(context) {
  return new ChartsPart(context);
}

class ChartsPart {
  constructor({ id, selection, pages }) {
    Object.assign(this, { id, selection });
    this.parallel = new Parallel({ selection, onChosen: (keys) => this.table.restrict(keys) });
    this.scatter = new Scatter({ selection, onOpen: (key) => go(["experiments", id, "trials", key]) });
    this.select = h("select", { onchange: () => this.drawScatter() });
    this.note = h("p", { class: "quiet small-text" });
    this.whole = loadAllButton(pages);
    this.part = h("p", { class: "note", hidden: true }, "The charts show one page of the trials. ", this.whole);
    this.table = new Table({ label: "Trials in the charts", columns: this.columns([], "metric"),
      keyOf: (row) => String(row.index), selection,
      sort: { id: "metric" }, empty: "No trial yet." });
    this.scatterTitle = h("h2", {}, "Metric against");
    const panel = (label, head, ...content) => h("section", { class: "panel", "aria-label": label },
      h("div", { class: "panel-head" }, head), content);
    this.element = h("div", {}, this.part, this.note,
      panel("Parallel coordinates of all trials", h("h2", {}, "Parallel coordinates"), this.parallel.element),
      panel("Scatter", [this.scatterTitle, h("label", { class: "check" }, "Hyperparameter ", this.select)],
        this.scatter.element, h("p", { class: "quiet small-text" }, "A disc is a completed trial, a ring a running one, "
          + "a square a stopped one, a cross a failed one. A click opens it.")),
      h("h2", {}, "The trials as a table"), this.table.element);
  }

  update(experiment) {
    const text = JSON.stringify(experiment.trials.map((trial) => [trial.state, trial.metrics,
      trial.hyperparameters === null]));
    if (text === this.text) {
      return;
    }
    this.text = text;
    this.experiment = experiment;
    const isPart = experiment.trials.length < experiment.counts.total;
    this.part.hidden = this.whole.hidden = !isPart;
    const trials = experiment.trials.slice(0, DRAWN_MAX);
    this.rows = trials.map((trial) => ({ index: trial.index, state: trial.state, flat: flatten(trial.hyperparameters),
      value: latest(trial.metrics, experiment.metric) }));
    const known = this.rows.filter((row) => Object.keys(row.flat).length > 0);
    const { differing } = compare(known.map((row) => row.flat));
    const cut = experiment.trials.length > DRAWN_MAX ? ` The charts show the first ${whole(DRAWN_MAX)} trials.` : "";
    fill(this.note, differing.length === 0 ? "No hyperparameter differs between the trials, so there is one axis only." + cut
      : cut.trim());
    this.note.hidden = this.note.textContent === "";
    const axes = differing.slice(0, AXES_MAX).map((title) => ({ title, values: this.rows.map((row) => row.flat[title]) }));
    axes.push({ title: experiment.metric ?? "metric", values: this.rows.map((row) => row.value) });
    this.parallel.setTrials(this.rows.map((row) => String(row.index)), axes, experiment.smaller_is_better);
    this.drawChoices(differing);
    this.table.descending = this.table.sort === "metric" && !this.sorted ? !experiment.smaller_is_better
      : this.table.descending;
    this.sorted = true;
    this.table.setColumns(this.columns(differing, experiment.metric));
    this.table.drawHead();
    this.table.setRows(this.rows);
    this.drawScatter();
  }

  columns(differing, metric) {
    return [
      { id: "index", title: "Trial", value: (row) => row.index, cell: (row) =>
        h("a", { href: link(["experiments", this.id, "trials", row.index]) }, String(row.index)) },
      { id: "state", title: "State", value: (row) => row.state, cell: (row) => stateBadge(row.state) },
      { id: "metric", title: metric ?? "metric", numeric: true, value: (row) => row.value,
        text: (row) => number(row.value) },
      ...differing.slice(0, AXES_MAX).map((one) => ({ id: `hp.${one}`, title: one, numeric: true,
        value: (row) => row.flat[one], text: (row) => parameter(row.flat[one]) })),
    ];
  }

  drawChoices(differing) {
    const text = JSON.stringify(differing);
    if (text !== this.choicesText) {
      this.choicesText = text;
      const before = this.select.value;
      fill(this.select, differing.map((one) => h("option", { value: one }, one)),
        h("option", { value: "" }, "number of the trial"));
      this.select.value = differing.includes(before) ? before : differing[0] ?? "";
    }
  }

  drawScatter() {
    const chosen = this.select.value;
    fill(this.scatterTitle, name(this.experiment.metric ?? "metric"), " against ", name(chosen || "number of the trial"));
    this.scatter.setTrials(this.rows.map((row) => ({ key: String(row.index), title: `trial ${row.index}`, state: row.state,
      x: chosen ? row.flat[chosen] ?? null : row.index, y: row.value ?? NaN })), chosen || "number of the trial",
        this.experiment.metric ?? "metric");
  }

  close() {
    this.parallel.close();
    this.scatter.close();
  }
}
