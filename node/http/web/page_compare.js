/* Compare: several trials, of one experiment or of many, side by side: what differs first, then the curves of the metrics
   that they share. */

import { get, path } from "./api.js";
import { CurvePanel } from "./curve_panel.js";
import { assignPlaces, swatch } from "./canvas.js";
import { fill, h, name, setText } from "./dom.js";
import { duration, number, parameter, plural, whole } from "./format.js";
import { compare, flatten } from "./hyperparameters.js";
import { repeat } from "./live.js";
import { menu } from "./menu.js";
import { orderedKeys } from "./metrics.js";
import { here, link, setQuery } from "./router.js";
import { Selection } from "./selection.js";
import { stateBadge } from "./state.js";
import { TrialCurves } from "./trial_curves.js";

const RUNS_MAX = 24;
const CURVES_MAX = 6;
const ASK_MS = 3000;

export function open(_, query) {
  const page = new ComparePage(query);
  return { title: "Compare", element: page.element, close: () => page.close() };
}

class ComparePage {
  constructor(query) {
    this.selection = new Selection();
    this.runs = [];
    this.panels = new Map();
    this.places = new Map();
    this.chosen = null;
    this.only = h("input", { type: "checkbox", checked: query.get("all") !== "1", onchange: () => {
      setQuery({ all: this.only.checked ? null : "1" });
      this.drawTable();
    } });
    this.problem = h("p", { class: "note", hidden: true });
    this.place = h("div");
    this.table = h("div");
    this.grid = h("div", { class: "curve-grid" });
    this.choices = h("div", { class: "choices" });
    this.input = h("input", { type: "text", placeholder: "experiment id/trial",
      "aria-label": "Add a run: experiment id/trial" });
    this.add = h("form", { class: "toolbar", onsubmit: (event) => {
      event.preventDefault();
      this.setKeys([...this.keys, this.input.value.trim()].filter(Boolean));
      this.input.value = "";
    } }, this.input, h("button", { type: "submit", class: "small" }, "Add a run"),
      h("label", { class: "check" }, this.only, "Only what differs"),
    menu("Metrics", this.choices));
    this.element = h("div", {}, h("h1", {}, "Compare"), this.add, this.problem, this.place, this.table, this.grid);
    this.setKeys((query.get("runs") ?? "").split(",").filter(Boolean));
    this.poll = repeat(ASK_MS, () => this.load());
  }

  setKeys(keys) {
    this.keys = [...new Set(keys)].slice(0, RUNS_MAX);
    if ((here().query.get("runs") ?? "") !== this.keys.join(",")) {
      setQuery({ runs: this.keys.join(",") });
    }
    fill(this.place, this.keys.length === 0 && h("p", { class: "quiet empty" },
      "Pick trials in the table of an experiment and press Compare, or add runs here."));
    this.poll?.now();
  }

  async load() {
    const answers = await Promise.allSettled(this.keys.map((key) => {
      const [experiment, trial] = key.split("/");
      return get(`/experiments${path(experiment)}/trials${path(trial ?? "0")}`);
    }));
    const failed = answers.findIndex((answer) => answer.status === "rejected");
    if (failed >= 0 && [0, 401].includes(answers[failed].reason.status)) {
      throw answers[failed].reason;
    }
    this.problem.hidden = failed < 0;
    setText(this.problem, failed < 0 ? "" : `${this.keys[failed]}: ${answers[failed].reason.message}`);
    const runs = answers.flatMap((answer, i) => (answer.status === "fulfilled" ? [runOf(this.keys[i], answer.value)] : []));
    const text = JSON.stringify(runs);
    if (text !== this.text) {
      this.text = text;
      this.runs = runs;
      assignPlaces(this.places, runs.map((run) => run.key));
      this.drawTable();
      this.drawCurves();
    }
  }

  drawTable() {
    if (this.runs.length === 0) {
      fill(this.table);
      return;
    }
    const { differing, same } = compare(this.runs.map((run) => run.flat));
    const sameMetrics = (key) => new Set(this.runs.map((run) => String(run.metrics[key]))).size === 1;
    const keys = orderedKeys(new Set(this.runs.flatMap((run) => Object.keys(run.metrics))), this.runs[0].metric);
    const only = this.only.checked && this.runs.length > 1;
    const rows = [
      ...differing.map((one) => [name(one), (run) => parameter(run.flat[one]), true]),
      ["State", (run) => stateBadge(run.state)],
      ["Step", (run) => whole(run.step)],
      ["Took", (run) => duration(run.took)],
      ...keys.filter((key) => !only || !sameMetrics(key)).map((key) => [name(key), (run) => number(run.metrics[key])]),
      ...(only ? [] : Object.keys(same).map((one) => [name(one), (run) => parameter(run.flat[one])])),
    ];
    fill(this.table, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Runs side by side" },
      h("table", { class: "compare" }, h("caption", { class: "unseen" }, "Runs side by side"),
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Run"), this.runs.map((run) => this.head(run)))),
        h("tbody", {}, rows.map(([title, cell, differs]) => h("tr", { class: differs ? "differs" : null },
          h("th", { scope: "row" }, title),
          this.runs.map((run) => h("td", { class: "number" }, cell(run)))))))),
    only && h("p", { class: "quiet small-text" }, `${plural(Object.keys(same).length, "hyperparameter is",
      "hyperparameters are")} the same in all runs.`));
  }

  head(run) {
    return h("th", { scope: "col", class: "number", onpointerenter: () => this.selection.hover(run.key),
      onpointerleave: () => this.selection.hover(null) },
      swatch(this.places.get(run.key)), h("a", { href: link(["experiments", run.experiment, "trials", run.trial]) },
        name(run.name),
        `/${run.trial}`),
      h("button", { type: "button", class: "small plain", "aria-label": `Remove ${run.title}`,
        onclick: () => this.setKeys(this.keys.filter((key) => key !== run.key)) }, "×"));
  }

  drawCurves() {
    const all = orderedKeys(new Set(this.runs.flatMap((run) => Object.keys(run.metrics))), this.runs[0]?.metric);
    const shown = (this.chosen ?? all.slice(0, CURVES_MAX)).filter((key) => all.includes(key));
    const trials = this.runs.map((run) => ({ key: run.key, experiment: run.experiment, trial: run.trial, title: run.title,
      href: link(["experiments", run.experiment, "trials", run.trial]), version: run.version }));
    const kept = new Map();
    for (const key of shown) {
      const one = this.panels.get(key) ?? this.makePanel(key);
      one.curves.setTrials(trials);
      kept.set(key, one);
    }
    for (const [key, one] of this.panels) {
      if (!kept.has(key)) {
        one.panel.close();
        one.curves.close();
      }
    }
    this.panels = kept;
    fill(this.grid, [...kept.values()].map((one) => one.panel.element));
    const text = JSON.stringify([all, shown]);
    if (text !== this.choicesText) {
      this.choicesText = text;
      fill(this.choices, all.map((key) => {
        const box = h("input", { type: "checkbox", checked: shown.includes(key), onchange: () => {
          this.chosen = box.checked ? [...shown, key] : shown.filter((one) => one !== key);
          this.drawCurves();
        } });
        return h("label", { class: "check" }, box, name(key));
      }));
    }
  }

  makePanel(key) {
    const panel = new CurvePanel({ title: key, selection: this.selection, onZoom: (range) => curves.zoom(range) });
    const curves = new TrialCurves(panel, () => key, this.places);
    return { panel, curves };
  }

  close() {
    this.poll.stop();
    for (const one of this.panels.values()) {
      one.panel.close();
      one.curves.close();
    }
  }
}

function runOf(key, { experiment, trial }) {
  const metrics = {};
  for (const [group, values] of Object.entries(trial.metrics ?? {})) {
    for (const [one, value] of Object.entries(values)) {
      metrics[`${group}/${one}`] = value;
    }
  }
  return { key, experiment: experiment.id, trial: trial.index, name: experiment.name,
    title: `${experiment.name}/${trial.index}`, metric: experiment.metric,
    state: trial.state, step: trial.step, took: trial.started_s ? (trial.ended_s ?? trial.started_s) - trial.started_s
      + (trial.before_s ?? 0) : null,
    flat: flatten(trial.hyperparameters), metrics, version: `${trial.step} ${trial.attempt} ${trial.state}` };
}
