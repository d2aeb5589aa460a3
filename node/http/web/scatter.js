/* One value of each trial against another: a point for each trial, whose shape tells its state. */

import { Surface, drawAxes } from "./canvas.js";
import { h, setText } from "./dom.js";
import { number, parameter } from "./format.js";
import { kindOf } from "./hyperparameters.js";
import { makeScale } from "./scale.js";

const HEIGHT = 320;
const MANY = 2000; /* points: beyond this they are small */
const NEAR_PX = 14;

export class Scatter {
  /* `setTrials`: [{ key, title, state, x, y }]; `onOpen(key)`: a point was clicked. */
  constructor({ selection, onOpen }) {
    this.selection = selection;
    this.trials = [];
    this.pointer = null;
    this.surface = new Surface("Trials as points; the table of trials has the values.", HEIGHT,
      (...all) => this.paint(...all));
    this.tip = h("div", { class: "tip", hidden: true });
    this.surface.element.append(this.tip);
    this.element = h("div", {}, this.surface.element);
    const canvas = this.surface.canvas;
    canvas.addEventListener("pointermove", (event) => {
      const box = canvas.getBoundingClientRect();
      this.pointer = { x: event.clientX - box.left, y: event.clientY - box.top };
      this.surface.redraw();
    });
    canvas.addEventListener("pointerleave", () => {
      this.pointer = null;
      this.selection.hover(null);
      this.surface.redraw();
    });
    canvas.addEventListener("click", () => this.near && onOpen(this.near.key));
    this.onChange = () => this.surface.redraw();
    selection.addEventListener("change", this.onChange);
  }

  setTrials(trials, xTitle, yTitle) {
    Object.assign(this, { xTitle, yTitle });
    this.trials = trials.filter((t) => t.x !== null && t.x !== undefined && Number.isFinite(t.y));
    this.xKind = kindOf(this.trials.map((t) => t.x));
    this.yKind = kindOf(this.trials.map((t) => t.y));
    this.surface.redraw();
  }

  paint(context, width, height, colours) {
    context.font = colours.font;
    if (this.trials.length === 0) {
      context.fillStyle = colours.quiet;
      context.fillText("No trial has both values yet.", 16, 28);
      return;
    }
    const y = makeScale(this.yKind.low, this.yKind.high, height - 48, 14, this.yKind.log);
    const labels = y.ticks(6).map((tick) => context.measureText(tick.text).width);
    const area = { left: Math.ceil(Math.max(28, ...labels)) + 12, top: 14, right: width - 16, bottom: height - 42 };
    const x = this.xScale(area);
    drawAxes(context, colours, area, x, y, this.xTitle);
    this.placed = this.trials.map((trial) => ({ ...trial, px: x.of(trial.x), py: y.at(trial.y) }));
    this.near = this.nearest();
    const thick = this.near?.key ?? this.selection.hovered;
    const size = this.placed.length > MANY ? 2.5 : 4;
    this.placed.forEach((trial) => point(context, colours, trial, trial.key === thick ? size + 2 : size,
      this.selection.picked.has(trial.key)));
    this.showTip(width);
  }

  xScale(area) {
    const room = 12;
    if (this.xKind.numeric) {
      const scale = makeScale(this.xKind.low, this.xKind.high, area.left + room, area.right - room, this.xKind.log);
      return { of: scale.at, at: scale.at, ticks: scale.ticks };
    }
    const { texts } = this.xKind;
    const at = (i) => area.left + ((i + 0.5) * (area.right - area.left)) / texts.length;
    return { of: (value) => at(texts.indexOf(typeof value === "string" ? value : JSON.stringify(value))), at,
      ticks: () => texts.map((text, i) => ({ value: i, text: text.length > 14 ? `${text.slice(0, 13)}…` : text })) };
  }

  nearest() {
    if (!this.pointer) {
      return null;
    }
    const far = (t) => Math.hypot(t.px - this.pointer.x, t.py - this.pointer.y);
    const best = this.placed.reduce((a, b) => (far(b) < far(a) ? b : a));
    return far(best) <= NEAR_PX ? best : null;
  }

  showTip(width) {
    const near = this.near;
    this.tip.hidden = !near;
    this.surface.canvas.style.cursor = near ? "pointer" : "default";
    if (!near) {
      return;
    }
    setText(this.tip, `${near.title}, ${near.state}: ${this.yTitle} ${number(near.y)}, ${this.xTitle} ${parameter(near.x)}`);
    const right = near.px > width / 2;
    this.tip.style.left = right ? "auto" : `${near.px + 12}px`;
    this.tip.style.right = right ? `${width - near.px + 12}px` : "auto";
    this.selection.hover(near.key);
  }

  close() {
    this.surface.close();
    this.selection.removeEventListener("change", this.onChange);
  }
}

/* A disc for a completed trial, a ring for a running one, a square for a stopped one, a cross for a failed one. */
function point(context, colours, { px, py, state }, size, picked) {
  context.globalAlpha = picked ? 1 : 0.75;
  context.fillStyle = context.strokeStyle = state === "failed" ? colours.bad : picked ? colours.series[1] : colours.accent;
  context.lineWidth = 2;
  context.beginPath();
  if (state === "failed") {
    context.moveTo(px - size, py - size);
    context.lineTo(px + size, py + size);
    context.moveTo(px + size, py - size);
    context.lineTo(px - size, py + size);
    context.stroke();
  } else if (state === "stopped" || state === "paused" || state === "cancelled") {
    context.strokeRect(px - size + 1, py - size + 1, 2 * size - 2, 2 * size - 2);
  } else {
    context.arc(px, py, size, 0, 2 * Math.PI);
    if (state === "completed") {
      context.fill();
    } else {
      context.stroke();
    }
  }
  context.globalAlpha = 1;
}
