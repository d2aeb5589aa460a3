/* Curves of one metric: for each run a line through the last values and a band from the least to the greatest, so that a
   single point far off stays visible however many points a pixel stands for. Hovering reads values off; dragging zooms. */

import { Surface, drawAxes, look } from "./canvas.js";
import { dot, paintRun } from "./curve_paint.js";
import { h, setText } from "./dom.js";
import { clock, number, whole } from "./format.js";
import { extent, linearTicks, makeScale } from "./scale.js";

const HEIGHT = 260;
const NEAR_PX = 40;

export class Curves {
  /* `runs`: [{ key, title, series, place }], where `place` picks colour and dashes. `onZoom(range)`: asks for finer sums;
     null: all. */
  constructor({ title, selection = null, onZoom = () => {}, height = HEIGHT }) {
    Object.assign(this, { title, selection, onZoom });
    this.runs = [];
    this.zoom = null;
    this.isLog = false;
    this.byTime = false;
    this.pointer = null;
    this.drag = null;
    this.thick = null;
    this.inside = null;
    this.surface = new Surface(`Curves of ${title}; the table below has the values.`, height, (...all) => this.paint(...all),
      (...all) => this.paintOver(...all));
    this.tip = h("div", { class: "tip", hidden: true });
    this.surface.element.append(this.tip);
    this.element = h("div", { class: "curves" }, this.surface.element);
    this.listen();
    this.onChange = () => this.surface.redraw();
    selection?.addEventListener("change", this.onChange);
  }

  listen() {
    const canvas = this.surface.canvas;
    const place = (event) => event.clientX - canvas.getBoundingClientRect().left;
    canvas.addEventListener("pointerdown", (event) => {
      this.drag = { from: place(event), to: place(event) };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      const box = canvas.getBoundingClientRect();
      this.pointer = { x: event.clientX - box.left, y: event.clientY - box.top };
      if (this.drag) {
        this.drag.to = this.pointer.x;
      }
      this.surface.redrawOver();
    });
    canvas.addEventListener("pointerup", () => this.endDrag());
    canvas.addEventListener("pointercancel", () => (this.drag = null));
    canvas.addEventListener("pointerleave", () => {
      this.pointer = null;
      this.surface.redrawOver();
    });
    canvas.addEventListener("dblclick", () => this.setZoom(null));
  }

  endDrag() {
    const { from, to } = this.drag ?? { from: 0, to: 0 };
    this.drag = null;
    if (this.x && Math.abs(to - from) > 6) {
      this.setZoom([this.x.value(Math.min(from, to)), this.x.value(Math.max(from, to))]);
    }
  }

  setRuns(runs) {
    this.runs = runs;
    this.surface.redraw();
  }

  setZoom(range) {
    this.zoom = range;
    this.onZoom(range);
    this.surface.redraw();
  }

  /* Half or twice the range around its middle: zooming without a mouse. */
  zoomBy(factor) {
    if (!this.x) {
      return;
    }
    const middle = (this.x.low + this.x.high) / 2;
    const half = ((this.x.high - this.x.low) / 2) * factor;
    const whole = this.range();
    const wide = whole && 2 * half >= whole[1] - whole[0];
    this.setZoom(wide ? null : [middle - half, middle + half]);
  }

  set(options) {
    if (options.byTime !== undefined && options.byTime !== this.byTime) {
      this.zoom = null;
    }
    Object.assign(this, options);
    this.surface.redraw();
  }

  xs(series) {
    return this.byTime ? series.time : series.step;
  }

  range() {
    return extent(this.runs.map((run) => this.xs(run.series)));
  }

  paint(context, width, height, colours) {
    if (this.runs.every((run) => run.series.step.length === 0)) {
      this.inside = null;
      context.font = colours.font;
      context.fillStyle = colours.quiet;
      context.fillText("No values yet.", 12, 28);
      return;
    }
    const [x0, x1] = this.zoom ?? this.range() ?? [0, 1];
    const inside = this.runs.map((run) => ({ run, ...this.window(run.series, x0, x1) }));
    const values = inside.flatMap(({ run, from, to }) => [run.series.min.slice(from, to), run.series.max.slice(from, to)]);
    const [y0, y1] = extent(values, { positive: this.isLog, margin: 0.04 }) ?? [0, 1];
    const y = makeScale(y0, y1, height - 42, 10, this.isLog);
    context.font = colours.font;
    const labels = y.ticks(Math.max(2, Math.floor((height - 52) / 34)));
    const left = Math.ceil(Math.max(28, ...labels.map((tick) => context.measureText(tick.text).width))) + 12;
    const area = { left, top: 10, right: width - 12, bottom: height - 42 };
    this.x = makeScale(x0, x1, area.left, area.right);
    this.y = y;
    this.area = area;
    const axis = this.byTime ? { ...this.x, ticks: (count) => timeTicks(this.x, count) } : this.x;
    drawAxes(context, colours, area, axis, y, this.byTime ? "time of day" : "step");
    context.save();
    context.beginPath();
    context.rect(area.left - 1, area.top - 4, area.right - area.left + 2, area.bottom - area.top + 8);
    context.clip();
    this.inside = inside;
    const pointed = this.thick ?? this.selection?.hovered ?? null;
    const thick = this.runs.some((run) => run.key === pointed) ? pointed : null;
    for (const { run, from, to } of inside) {
      const emphasis = thick === null ? 0 : thick === run.key ? 1 : -1;
      paintRun(context, colours, { ...look(run.place), series: run.series, xs: this.xs(run.series), from, to, emphasis },
        this.x, y, area.bottom);
    }
    context.restore();
  }

  /* What follows the pointer: the range that is dragged, or the nearest point with its value. The picture below is drawn
     anew only when another run is the nearest. */
  paintOver(context, width, height, colours) {
    if (!this.inside) {
      this.tip.hidden = true;
      return;
    }
    this.paintDrag(context, colours, this.area);
    const near = this.nearest(this.inside);
    if (near) {
      this.paintNear(context, colours, near);
    }
    this.showTip(near, width);
    const thick = near && this.runs.length > 1 ? near.run.key : null;
    if (thick !== this.thick) {
      this.thick = thick;
      this.selection?.hover(thick);
      this.surface.redraw();
    }
  }

  /* The places of a series within a range of x, and one on either side, so that lines go to the edges. */
  window(series, x0, x1) {
    const xs = this.xs(series);
    let from = xs.findIndex((x) => x >= x0);
    from = from < 0 ? xs.length : from;
    let to = xs.findIndex((x, i) => i >= from && x > x1);
    to = to < 0 ? xs.length : to;
    return { from: Math.max(0, from - 1), to: Math.min(xs.length, to + 1) };
  }

  paintDrag(context, colours, area) {
    if (this.drag && Math.abs(this.drag.to - this.drag.from) > 6) {
      context.globalAlpha = 0.15;
      context.fillStyle = colours.accent;
      context.fillRect(Math.min(this.drag.from, this.drag.to), area.top, Math.abs(this.drag.to - this.drag.from),
        area.bottom - area.top);
      context.globalAlpha = 1;
    }
  }

  /* The point nearest to the pointer: of each run the one nearest in x, of these the one nearest in y. */
  nearest(inside) {
    if (!this.pointer || this.drag) {
      return null;
    }
    let best = null;
    for (const { run, from, to } of inside) {
      const xs = this.xs(run.series);
      let place = -1;
      for (let i = from; i < to; i++) {
        if (place < 0 || Math.abs(this.x.at(xs[i]) - this.pointer.x) < Math.abs(this.x.at(xs[place]) - this.pointer.x)) {
          place = i;
        }
      }
      if (place >= 0 && Math.abs(this.x.at(xs[place]) - this.pointer.x) < NEAR_PX) {
        const value = run.series.last[place];
        const far = Number.isFinite(value) ? Math.abs(this.y.at(value) - this.pointer.y) : Infinity;
        if (!best || far < best.far) {
          best = { run, place, far };
        }
      }
    }
    return best;
  }

  paintNear(context, colours, { run, place }) {
    const x = this.x.at(this.xs(run.series)[place]);
    context.strokeStyle = colours.quiet;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(x, this.area.top);
    context.lineTo(x, this.area.bottom);
    context.stroke();
    if (Number.isFinite(run.series.last[place])) {
      context.fillStyle = colours.series[look(run.place).colour];
      dot(context, x, this.y.at(run.series.last[place]), 3.5);
    }
  }

  showTip(near, width) {
    this.tip.hidden = !near;
    if (!near) {
      return;
    }
    const { series } = near.run;
    const i = near.place;
    const spread = series.min[i] !== series.max[i] ? `, ${number(series.min[i])} to ${number(series.max[i])}` : "";
    const time = Number.isFinite(series.time[i]) ? `, ${clock(series.time[i])}` : "";
    setText(this.tip, `${near.run.title}: ${number(series.last[i])}${spread} at step ${whole(series.step[i])}${time}`);
    const x = this.x.at(this.xs(series)[i]);
    const right = x > width / 2;
    this.tip.style.left = right ? "auto" : `${x + 10}px`;
    this.tip.style.right = right ? `${width - x + 10}px` : "auto";
  }

  close() {
    this.surface.close();
    this.selection?.removeEventListener("change", this.onChange);
  }
}

function timeTicks(scale, count) {
  return linearTicks(scale.low, scale.high, count).map(({ value }) => ({ value, text: clock(value) }));
}
