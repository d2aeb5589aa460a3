/* A panel with one metric: its curves, the switches of the axes, zoom without a mouse, a legend, and the table behind the
   picture. */

import { swatch } from "./canvas.js";
import { Curves } from "./curves.js";
import { fill, h, name, setText } from "./dom.js";
import { number, plural, whole } from "./format.js";
import { summary } from "./metrics.js";
import { plainTable } from "./table.js";

const TABLE_ROWS = 200;

export class CurvePanel {
  /* `runs` of `setRuns`: [{ key, title, href?, series, place }]. `onZoom(range)` as for Curves. */
  constructor({ title, selection = null, onZoom = () => {}, legend = true }) {
    this.title = title;
    this.hasLegend = legend;
    this.curves = new Curves({ title, selection, onZoom: (range) => {
      this.reset.disabled = range === null;
      onZoom(range);
    } });
    this.runs = [];
    this.build();
  }

  build() {
    this.reset = h("button", { type: "button", class: "small", disabled: true, onclick: () => this.curves.setZoom(null) },
      "All");
    this.legend = h("ul", { class: "legend" });
    this.note = h("p", { class: "quiet small-text", hidden: true });
    this.table = h("div");
    this.details = h("details", { ontoggle: () => this.drawTable() }, h("summary", {}, "Values as a table"), this.table);
    this.byTime = this.toggle("Time", "byTime", "Time of day instead of steps");
    const tools = h("span", { class: "tools" }, this.toggle("Log", "isLog", "Logarithmic values"), this.byTime,
      this.zoom("−", "Zoom out", 2),
      this.zoom("+", "Zoom in", 0.5), this.reset);
    this.element = h("section", { class: "panel", "aria-label": this.title },
      h("div", { class: "panel-head" }, h("h2", {}, name(this.title)), tools),
      this.curves.element, this.hasLegend && this.legend, this.note, this.details);
  }

  toggle(text, option, hint) {
    const press = () => {
      const on = !this.curves[option];
      button.setAttribute("aria-pressed", String(on));
      this.curves.set({ [option]: on });
    };
    const button = h("button", { type: "button", class: "small toggle", "aria-pressed": "false", title: hint,
      onclick: press }, text);
    return button;
  }

  zoom(text, label, factor) {
    return h("button", { type: "button", class: "small", "aria-label": `${label}: ${this.title}`,
      onclick: () => this.curves.zoomBy(factor) }, text);
  }

  setByTime(on) {
    this.byTime.setAttribute("aria-pressed", String(on));
    this.curves.set({ byTime: on });
  }

  setRuns(runs) {
    this.runs = runs;
    this.curves.setRuns(runs);
    this.drawLegend();
    const nan = runs.reduce((sum, run) => sum + run.series.nan, 0);
    this.note.hidden = nan === 0;
    setText(this.note, `${plural(nan, "value is", "values are")} NaN, marked by × on the floor of the picture.`);
    this.drawTable();
  }

  drawLegend() {
    const wanted = JSON.stringify(this.runs.map((run) => [run.key, run.title, run.place]));
    if (!this.hasLegend || wanted === this.legendOf) {
      return;
    }
    this.legendOf = wanted;
    const hover = (key) => this.curves.selection?.hover(key);
    fill(this.legend, this.runs.map((run) => h("li", { onpointerenter: () => hover(run.key),
      onpointerleave: () => hover(null) },
      swatch(run.place), run.href ? h("a", { href: run.href }, name(run.title)) : name(run.title))));
  }

  /* Few runs: their last values, step by step; many: a line for each. */
  drawTable() {
    if (!this.details.open) {
      return;
    }
    const label = `Values of ${this.title}`;
    if (this.runs.length === 1) {
      const { series } = this.runs[0];
      const every = Math.max(1, Math.ceil(series.step.length / TABLE_ROWS));
      const rows = series.step.map((step, i) => [whole(step), number(series.last[i]), number(series.min[i]),
        number(series.max[i])])
        .filter((_, i) => i % every === 0 || i === series.step.length - 1);
      fill(this.table, plainTable(label, ["Step", "Last", "Least", "Greatest"], rows, [0, 1, 2, 3]));
      return;
    }
    const rows = this.runs.map((run) => {
      const sums = summary(run.series);
      return [run.title, number(sums.last), number(sums.min), number(sums.max), whole(sums.step), whole(run.series.count)];
    });
    fill(this.table, plainTable(label, ["Run", "Last", "Least", "Greatest", "Step", "Points"], rows, [1, 2, 3, 4, 5]));
  }

  close() {
    this.curves.close();
  }
}
