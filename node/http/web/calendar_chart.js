/* Slots over time: a row for each slot, a bar for the time in which an experiment held it, with the experiment's name where
   the bar has room. Above the rows, how many of the slots were held. */

import { Surface, look } from "./canvas.js";
import { h, setText } from "./dom.js";
import { clock, duration, plural } from "./format.js";

const ROW = 20;
const BAR = 15;
const BUSY = 40; /* the height of the sum above the rows */
const TOP = BUSY + 14;
const BOTTOM = 26;
const LABEL_PX = 7;
const TICKS_S = [60, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 604800];
const TIME = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

export class CalendarChart {
  /* `onOpen(span)`: a bar was clicked; `places`: the look of each experiment (canvas.js). */
  constructor({ onOpen, places }) {
    Object.assign(this, { rows: [], window: null, near: null, places });
    this.surface = new Surface("Which experiment held which slot when; the table below has the sums.", TOP + BOTTOM,
      (...all) => this.paint(...all));
    this.tip = h("div", { class: "tip", hidden: true });
    this.surface.element.append(this.tip);
    this.element = this.surface.element;
    const { canvas } = this.surface;
    canvas.addEventListener("pointermove", (event) => this.point(event));
    canvas.addEventListener("pointerleave", () => this.showTip(null));
    canvas.addEventListener("click", () => this.near && onOpen(this.near));
  }

  /* `rows`: [{ label, spans }], in the order to show; `window`: { from, until } in seconds. */
  set(rows, window) {
    Object.assign(this, { rows, window });
    this.element.style.height = `${TOP + BOTTOM + ROW * rows.length}px`;
    this.surface.redraw();
  }

  paint(context, width, height, colours) {
    if (!this.window) {
      return;
    }
    context.font = colours.font;
    const longest = Math.max(0, ...this.rows.map((row) => row.label.length));
    this.letters = Math.max(8, Math.min(longest, Math.floor(width / 4 / LABEL_PX)));
    this.left = this.letters * LABEL_PX + 12;
    this.right = width - 8;
    this.at = (second) => this.left + (this.right - this.left)
      * Math.max(0, Math.min(1, (second - this.window.from) / (this.window.until - this.window.from)));
    this.paintTimes(context, colours, height);
    this.paintBusy(context, colours);
    this.rows.forEach((row, i) => this.paintRow(context, colours, row, TOP + i * ROW));
  }

  paintTimes(context, colours, height) {
    const span = this.window.until - this.window.from;
    const step = TICKS_S.find((one) => span / one <= (this.right - this.left) / 80) ?? TICKS_S.at(-1);
    const zone = new Date(this.window.from * 1000).getTimezoneOffset() * 60;
    context.strokeStyle = colours.line;
    context.fillStyle = colours.quiet;
    context.textBaseline = "alphabetic";
    context.textAlign = "center";
    for (let at = Math.ceil((this.window.from - zone) / step) * step + zone; at <= this.window.until; at += step) {
      const x = Math.round(this.at(at)) + 0.5;
      context.beginPath();
      context.moveTo(x, 8);
      context.lineTo(x, height - BOTTOM);
      context.stroke();
      const date = new Date(at * 1000);
      const isDay = step >= 86400 || (date.getHours() === 0 && date.getMinutes() === 0);
      const text = isDay ? DAY.format(date) : TIME.format(date);
      if (x > this.left + 16 && x < this.right - 12) {
        context.fillText(text, x, height - 8);
      }
    }
  }

  /* For each pixel, how many of the slots were held. */
  paintBusy(context, colours) {
    const width = Math.max(1, Math.floor(this.right - this.left));
    const change = new Float32Array(width + 1);
    for (const { spans } of this.rows) {
      for (const span of spans) {
        change[Math.floor(this.at(span.from_s) - this.left)] += 1;
        change[Math.min(width, Math.ceil(this.at(span.until_s) - this.left))] -= 1;
      }
    }
    context.fillStyle = colours.accent;
    context.globalAlpha = 0.35;
    let held = 0;
    for (let x = 0; x < width; x++) {
      held += change[x];
      const high = (BUSY - 8) * Math.min(1, held / Math.max(1, this.rows.length));
      context.fillRect(this.left + x, BUSY - high, 1, high);
    }
    context.globalAlpha = 1;
    context.fillStyle = colours.quiet;
    context.textAlign = "left";
    context.fillText("slots held", 0, BUSY - 4);
    context.fillStyle = colours.line;
    context.fillRect(this.left, BUSY, width, 1);
  }

  paintRow(context, colours, row, top) {
    context.fillStyle = colours.text;
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.fillText(shorten(row.label, this.letters), 0, top + ROW / 2);
    context.fillStyle = colours.line;
    context.globalAlpha = 0.5;
    context.fillRect(this.left, top + (ROW - BAR) / 2, this.right - this.left, BAR);
    for (const span of row.spans) {
      this.paintSpan(context, colours, span, top + (ROW - BAR) / 2);
    }
    context.globalAlpha = 1;
  }

  paintSpan(context, colours, span, top) {
    const from = this.at(span.from_s);
    const wide = Math.max(1, this.at(span.until_s) - from);
    const { colour, dash } = look(this.places.get(span.experiment) ?? 0);
    context.globalAlpha = span === this.near ? 1 : 0.85;
    context.fillStyle = colours.series[colour];
    context.fillRect(from, top, wide, BAR);
    if (dash.length > 0 && wide > 6) { /* beyond eight experiments a line through the bar tells two of a colour apart */
      context.fillStyle = colours.surface;
      context.fillRect(from, top + BAR - 4, wide, 1.5);
    }
    const letters = Math.floor((wide - 10) / LABEL_PX);
    if (letters >= 4) {
      context.globalAlpha = 1;
      context.fillStyle = colours.surface;
      context.fillText(shorten(span.name, letters), from + 5, top + BAR / 2 + 0.5);
    }
  }

  point(event) {
    const box = this.surface.canvas.getBoundingClientRect();
    const x = event.clientX - box.left;
    const row = this.rows[Math.floor((event.clientY - box.top - TOP) / ROW)];
    const hit = row?.spans.findLast((span) => x >= this.at(span.from_s) - 2
      && x <= Math.max(this.at(span.until_s), this.at(span.from_s) + 1) + 2);
    this.showTip(hit ?? null, x, row);
  }

  showTip(span, x, row) {
    this.tip.hidden = !span;
    this.surface.canvas.style.cursor = span ? "pointer" : "default";
    if (span) {
      setText(this.tip, `${span.name} on ${row.label}: ${clock(span.from_s * 1000)} to ${span.open ? "now"
        : clock(span.until_s * 1000)}, ${duration(span.until_s - span.from_s)}, ${span.workers === 1
        ? `trial ${span.trial}` : `${plural(span.workers, "worker")} from trial ${span.trial} on`}`);
      const right = x > this.surface.element.clientWidth / 2;
      this.tip.style.left = right ? "auto" : `${x + 12}px`;
      this.tip.style.right = right ? `${this.surface.element.clientWidth - x + 12}px` : "auto";
    }
    if (span !== this.near) {
      this.near = span;
      this.surface.redraw();
    }
  }

  close() {
    this.surface.close();
  }
}

function shorten(text, length) {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}
