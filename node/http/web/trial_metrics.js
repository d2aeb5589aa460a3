/* Curves of a trial: the searcher's metric and a few more; the others when the user asks for them. Only panels in view
   are drawn. */

import { path } from "./api.js";
import * as banner from "./banner.js";
import { CurvePanel } from "./curve_panel.js";
import { fill, h, name, setText } from "./dom.js";
import { plural } from "./format.js";
import { calm, follow } from "./live.js";
import { menu } from "./menu.js";
import { POINTS, loadMetrics, orderedKeys, pointsFor } from "./metrics.js";
import { setQuery } from "./router.js";

const SHOWN_FIRST = 6;
const CHOICES_MAX = 300;
const GAP_MS = 500; /* between two questions, */
const GAP_SHARE = 3; /* and three times as long as the last answer took: a slow machine is asked less */

export function metricsPart(context) {
  return new MetricsPart(context);
}

class MetricsPart {
  constructor({ id, index, query }) {
    Object.assign(this, { id, index });
    this.chosen = query.get("metrics")?.split(",").filter(Boolean) ?? null;
    this.panels = new Map();
    this.points = POINTS;
    this.abort = new AbortController();
    this.note = h("p", { class: "quiet" }, "Loading.");
    this.search = h("input", { type: "search", placeholder: "Find a metric", "aria-label": "Find a metric",
      oninput: () => this.drawChoices() });
    this.choices = h("div", { class: "choices" });
    this.chooser = menu("Metrics", this.search, this.choices);
    this.grid = h("div", { class: "curve-grid" });
    this.element = h("div", {}, h("div", { class: "toolbar" }, this.chooser, this.note), this.grid);
  }

  /* New points come as a stream while the trial runs; they tell when to load, and what is drawn are sums. */
  followPoints(state) {
    if (state === "running" && !this.stream) {
      const soon = calm(GAP_MS, () => this.load());
      this.stream = follow(`/experiments${path(this.id)}/trials${path(this.index)}/metrics`,
        { follow: true, since_ms: Date.now() }, ({ points }) => points?.length > 0 && void soon());
    }
  }

  update({ experiment, trial }) {
    this.metric = experiment.metric;
    this.followPoints(trial.state);
    const version = `${trial.step} ${trial.attempt} ${trial.state} ${JSON.stringify(trial.metrics)} ${this.points}`;
    if (version !== this.version) {
      this.version = version;
      this.load();
    }
  }

  async load() {
    if (this.busy) {
      this.wanted = true;
      return;
    }
    this.busy = true;
    this.wanted = false;
    const began = performance.now();
    try {
      const { series, unreachable } = await loadMetrics(this.id, this.index, this.points, this.abort.signal);
      this.series = series;
      this.draw();
      banner.missingPoints(unreachable);
    } catch (problem) {
      banner.report("points", problem, () => this.load());
    }
    const gap = Math.max(GAP_MS, GAP_SHARE * (performance.now() - began));
    setTimeout(() => {
      this.busy = false;
      if (this.wanted && !this.abort.signal.aborted) {
        this.load();
      }
    }, gap);
  }

  draw() {
    const keys = orderedKeys(this.series.keys(), this.metric);
    const shown = (this.chosen ?? keys.slice(0, SHOWN_FIRST)).filter((key) => this.series.has(key));
    setText(this.note, keys.length === 0 ? "No metric has been reported yet."
      : `${plural(shown.length, "metric")} of ${keys.length} shown.`);
    const kept = new Map();
    for (const key of shown) {
      const panel = this.panels.get(key) ?? new CurvePanel({ title: key, legend: false,
        onZoom: (range) => this.zoom(key, range) });
      panel.setRuns([{ key, title: key, series: this.series.get(key), place: 0 }]);
      kept.set(key, panel);
    }
    for (const [key, panel] of this.panels) {
      if (!kept.has(key)) {
        panel.close();
      }
    }
    this.panels = kept;
    fill(this.grid, [...kept.values()].map((panel) => panel.element));
    this.keys = keys;
    this.shown = shown;
    this.drawChoices();
  }

  drawChoices() {
    const wanted = this.search.value.toLowerCase();
    const found = (this.keys ?? []).filter((key) => key.toLowerCase().includes(wanted));
    const text = JSON.stringify([found, this.shown]);
    if (text === this.choicesText) {
      return;
    }
    this.choicesText = text;
    fill(this.choices, found.slice(0, CHOICES_MAX).map((key) => {
      const box = h("input", { type: "checkbox", checked: this.shown.includes(key),
        onchange: () => this.choose(key, box.checked) });
      return h("label", { class: "check" }, box, name(key));
    }), found.length > CHOICES_MAX
      && h("p", { class: "quiet" }, `And ${found.length - CHOICES_MAX} more: type a part of the name.`));
  }

  choose(key, on) {
    this.chosen = on ? [...this.shown, key] : this.shown.filter((one) => one !== key);
    setQuery({ metrics: this.chosen.join(",") });
    this.draw();
  }

  zoom(key, range) {
    const points = pointsFor(range, this.panels.get(key)?.curves.range());
    if (points > this.points) {
      this.points = points;
      this.load();
    }
  }

  close() {
    this.abort.abort();
    this.stream?.close();
    for (const panel of this.panels.values()) {
      panel.close();
    }
  }
}
