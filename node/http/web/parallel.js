/* Parallel coordinates: an axis for each hyperparameter that differs and one for the metric, a line for each trial.
   Dragging along an axis chooses a range; lines outside of a chosen range are faint. Trials whose metric is NaN or
   unknown have no line; their number stands below. */

import { Surface } from "./canvas.js";
import { Density } from "./density.js";
import { h, setText } from "./dom.js";
import { number, plural } from "./format.js";
import { kindOf } from "./hyperparameters.js";
import { makeScale } from "./scale.js";

const HEIGHT = 320;
const TOP = 38;
const BOTTOM = 26;
const BRUSH_PX = 12;
const AXIS_PX_LEAST = 96;
const LETTER_PX = 7;
const SIDE = 48;
const FRAME_MS = 20; /* of adding lines in one frame; the first frame has a fair sample of the lines already */
const PAINT_MS = 100; /* between two pictures on the way to the whole one */
const STRIDE = 7919; /* a prime: in steps of it through a list every part of the list comes early */

export class Parallel {
  /* `onChosen(keys)`: the set of trials within all chosen ranges; null: no range is chosen. */
  constructor({ selection, onChosen }) {
    Object.assign(this, { selection, onChosen });
    this.axes = [];
    this.keys = [];
    this.drag = null;
    this.chosen = null;
    this.surface = new Surface("Hyperparameters and metric of all trials as lines; the table of trials has the values.",
      HEIGHT,
      (...all) => this.paint(...all), (...all) => this.paintOver(...all));
    this.layers = { all: new Layer(this.surface.canvas), inside: new Layer(h("canvas", { class: "over",
      "aria-hidden": "true" })) };
    this.surface.over.before(this.layers.inside.canvas);
    this.scroll = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Parallel coordinates" },
      this.surface.element);
    this.note = h("p", { class: "quiet small-text" });
    this.clear = h("button", { type: "button", class: "small", disabled: true, onclick: () => this.clearRanges() },
      "Clear ranges");
    this.element = h("div", { class: "parallel" }, this.scroll, h("div", { class: "row" }, this.note, this.clear));
    this.listen();
    this.onChange = () => this.surface.redrawOver();
    selection.addEventListener("change", this.onChange);
  }

  /* `axes`: [{ title, values }], the metric last, all lists as long as `keys`. `smaller`: whether small metrics are good
     ones. */
  setTrials(keys, axes, smaller) {
    const ranges = new Map(this.axes.filter((a) => a.range).map((a) => [a.title, a.range]));
    const metric = axes.at(-1).values;
    const drawn = keys.map((_, i) => i).filter((i) => Number.isFinite(metric[i]));
    this.axes = axes.map(({ title, values }) => ({ title, ...kindOf(drawn.map((i) => values[i])),
      range: ranges.get(title) ?? null,
      list: drawn.map((i) => values[i]) }));
    this.keys = drawn.map((i) => keys[i]);
    this.places = new Map(this.keys.map((key, i) => [key, i]));
    this.without = keys.length - drawn.length;
    const order = drawn.map((_, i) => i).sort((a, b) => metric[drawn[a]] - metric[drawn[b]]);
    this.rank = new Float32Array(drawn.length);
    order.forEach((place, i) => (this.rank[place] = order.length > 1 ? i / (order.length - 1) : 1));
    if (smaller) {
      this.rank = this.rank.map((rank) => 1 - rank);
    }
    this.surface.canvas.style.minWidth = this.surface.element.style.minWidth = `${AXIS_PX_LEAST * axes.length}px`;
    this.ranges = null;
    this.choose(false);
    this.surface.redraw();
  }

  listen() {
    const canvas = this.surface.canvas;
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return { x: event.clientX - box.left, y: event.clientY - box.top };
    };
    canvas.addEventListener("pointerdown", (event) => {
      const { x, y } = at(event);
      const axis = this.axes.find((a) => Math.abs(a.x - x) < 24);
      if (axis) {
        this.drag = { axis, from: y };
        axis.range = null;
        canvas.setPointerCapture(event.pointerId);
      }
    });
    canvas.addEventListener("pointermove", (event) => {
      if (this.drag) {
        const { y } = at(event);
        this.drag.axis.range = Math.abs(y - this.drag.from) < 4 ? null : this.rangeOf(Math.min(y, this.drag.from),
          Math.max(y, this.drag.from));
        this.choose(false);
        this.surface.redrawOver();
      }
    });
    canvas.addEventListener("pointerup", () => {
      if (this.drag) {
        this.drag = null;
        this.choose(true);
        this.surface.redrawOver();
      }
    });
  }

  /* A range is a part of the axis' height, from 0 (top) to 1, so it holds in every size. */
  rangeOf(top, bottom) {
    const part = (y) => (y - TOP) / (HEIGHT - TOP - BOTTOM);
    return [part(top), part(bottom)];
  }

  clearRanges() {
    this.axes.forEach((axis) => (axis.range = null));
    this.choose(true);
    this.surface.redrawOver();
  }

  /* The height of each value on its axis, as a part from 0 (top) to 1; NaN if the value is unknown. */
  parts() {
    for (const axis of this.axes) {
      if (axis.partsOf !== axis.list) {
        const scale = axis.numeric ? makeScale(axis.low, axis.high, 1, 0, axis.log) : null;
        const texts = new Map((axis.texts ?? []).map((text, i) => [text, (i + 0.5) / axis.texts.length]));
        axis.parts = Float32Array.from(axis.list, (value) => (scale ? numberPart(scale, value)
          : textPart(texts, value)));
        axis.partsOf = axis.list;
      }
    }
  }

  choose(isDone) {
    this.parts();
    const ranged = this.axes.filter((axis) => axis.range);
    this.chosen = ranged.length === 0 ? null : this.inside(ranged);
    this.clear.disabled = this.chosen === null;
    setText(this.note, (this.chosen ? `${this.chosen.length} of ${plural(this.keys.length, "trial")} in the chosen ranges.`
      : "Drag along an axis to choose a range; the table shows these trials.")
      + (this.without > 0 ? ` ${plural(this.without, "trial has", "trials have")} no value, or NaN, and no line.` : ""));
    this.isDone ||= isDone;
    const ranges = JSON.stringify(this.axes.map((axis) => axis.range));
    if (ranges !== this.ranges) {
      this.ranges = ranges;
      this.drawInside();
    } else if (this.isWhole) {
      this.drawn();
    }
  }

  /* The lines within the ranges are drawn. What else shows the chosen trials comes behind: a table of ten thousand
     rows takes its time. */
  drawn() {
    this.isWhole = true;
    this.element.dispatchEvent(new CustomEvent("highlighted"));
    if (this.isDone) {
      this.isDone = false;
      const { chosen, keys } = this;
      setTimeout(() => this.onChosen(chosen && new Set(Array.from(chosen, (i) => keys[i]))));
    }
  }

  /* The trials within all of the ranges. NaN is within none. */
  inside(ranged) {
    const found = new Uint32Array(this.keys.length);
    let count = 0;
    for (let i = 0; i < found.length; i++) {
      if (ranged.every(({ range, parts }) => parts[i] >= range[0] && parts[i] <= range[1])) {
        found[count++] = i;
      }
    }
    return found.subarray(0, count);
  }

  /* The picture has all lines, and is drawn once. While ranges are chosen it is faint as a whole, and the lines within
     the ranges stand on a sheet above it: so a range follows the pointer, however many lines there are. */
  paint(context, width, height, colours) {
    const ratio = window.devicePixelRatio || 1;
    this.inner = height - TOP - BOTTOM;
    const step = (width - 2 * SIDE) / Math.max(1, this.axes.length - 1);
    this.letters = Math.max(8, Math.floor(step / LETTER_PX) - 2); /* of an axis' title */
    this.axes.forEach((axis, i) => (axis.x = SIDE + i * step));
    this.parts();
    const { canvas } = this.surface;
    Object.assign(this.layers.inside.canvas, { width: canvas.width, height: canvas.height });
    this.lines = { colours, ratio, x: Float32Array.from(this.axes, (axis) => axis.x * ratio),
      parts: this.axes.map((axis) => axis.parts), rank: this.rank, top: TOP * ratio, inner: this.inner * ratio };
    this.layers.all.draw(this.lines, Uint32Array.from(this.keys, (_, i) => i), () => {});
    this.drawInside();
  }

  drawInside() {
    this.isWhole = false;
    this.surface.canvas.classList.toggle("faint", this.chosen !== null);
    if (this.lines) {
      this.layers.inside.draw(this.lines, this.chosen ?? new Uint32Array(0), () => this.drawn());
    }
  }

  paintOver(context, width, height, colours) {
    if (this.axes.length === 0 || this.axes[0].x === undefined) {
      return;
    }
    context.lineWidth = 2.5;
    context.strokeStyle = colours.series[1];
    for (const key of new Set([this.selection.hovered, ...this.selection.picked])) {
      if (this.places.has(key)) {
        this.paintLine(context, this.places.get(key));
      }
    }
    this.axes.forEach((axis, place) => this.paintAxis(context, colours, axis, place));
  }

  paintLine(context, i) {
    context.beginPath();
    let pen = false;
    for (const axis of this.axes) {
      if (Number.isNaN(axis.parts[i])) {
        pen = false;
      } else if (pen) {
        context.lineTo(axis.x, TOP + axis.parts[i] * this.inner);
      } else {
        context.moveTo(axis.x, TOP + axis.parts[i] * this.inner);
        pen = true;
      }
    }
    context.stroke();
  }

  paintAxis(context, colours, axis, place) {
    const { inner } = this;
    context.font = colours.font;
    context.strokeStyle = colours.quiet;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(axis.x, TOP);
    context.lineTo(axis.x, TOP + inner);
    context.stroke();
    const isFirst = place === 0;
    const isLast = place === this.axes.length - 1;
    context.textAlign = isFirst ? "left" : isLast ? "right" : "center";
    context.textBaseline = "alphabetic";
    context.fillStyle = colours.text;
    const log = axis.log ? " (log)" : "";
    context.fillText(shorten(axis.title, this.letters - log.length) + log, axis.x + (isLast - isFirst) * (SIDE - 4), 16);
    context.textAlign = "center";
    context.fillStyle = colours.quiet;
    if (axis.numeric && axis.list.length > 0) {
      context.fillText(number(axis.high), axis.x, TOP - 6);
      context.fillText(number(axis.low), axis.x, TOP + inner + 18);
    } else if (!axis.numeric) {
      context.textAlign = "left";
      axis.texts.slice(0, 12).forEach((text, i) => {
        const y = TOP + ((i + 0.5) / axis.texts.length) * inner;
        context.fillStyle = colours.surface;
        context.globalAlpha = 0.75;
        context.fillRect(axis.x + 3, y - 8, context.measureText(shorten(text, 12)).width + 4, 15);
        context.globalAlpha = 1;
        context.fillStyle = colours.quiet;
        context.fillText(shorten(text, 12), axis.x + 5, y + 4);
      });
    }
    if (axis.range) {
      context.globalAlpha = 0.35;
      context.fillStyle = colours.accent;
      context.fillRect(axis.x - BRUSH_PX / 2, TOP + axis.range[0] * inner, BRUSH_PX,
        (axis.range[1] - axis.range[0]) * inner);
      context.globalAlpha = 1;
    }
  }

  close() {
    this.surface.close();
    Object.values(this.layers).forEach((layer) => layer.stop());
    this.selection.removeEventListener("change", this.onChange);
  }
}

/* A canvas on which lines are drawn in the frames that follow. */
class Layer {
  constructor(canvas) {
    this.canvas = canvas;
    this.frame = 0;
  }

  /* Draws these lines in place of those that are there. */
  draw(lines, places, onDone) {
    this.stop();
    const { width, height } = this.canvas;
    const context = this.canvas.getContext("2d");
    if (places.length === 0 || width === 0 || height === 0) {
      context.clearRect(0, 0, width, height);
      onDone();
      return;
    }
    const density = new Density(width, height);
    const y = new Float32Array(lines.x.length);
    const opacity = Math.max(0.15, Math.min(0.85, 60 / places.length));
    const stride = places.length % STRIDE === 0 ? 1 : STRIDE;
    let done = 0;
    let painted = -Infinity;
    const go = () => {
      const end = performance.now() + FRAME_MS;
      while (done < places.length && (done % 64 !== 0 || performance.now() < end || done === 0)) {
        const i = places[(done * stride) % places.length];
        for (let axis = 0; axis < y.length; axis++) {
          y[axis] = lines.top + lines.parts[axis][i] * lines.inner;
        }
        density.add(lines.x, y, lines.rank[i]);
        done++;
      }
      if (done === places.length || performance.now() - painted > PAINT_MS) {
        density.paint(context, lines.colours.low, lines.colours.high, opacity);
        painted = performance.now();
      }
      if (done < places.length) {
        this.frame = requestAnimationFrame(go);
      } else {
        onDone();
      }
    };
    this.frame = requestAnimationFrame(go);
  }

  stop() {
    cancelAnimationFrame(this.frame);
  }
}

function numberPart(scale, value) {
  return Number.isFinite(value) ? scale.at(value) : NaN;
}

function textPart(texts, value) {
  return texts.get(typeof value === "string" ? value : JSON.stringify(value)) ?? NaN;
}

function shorten(text, length) {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}
