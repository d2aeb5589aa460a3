/* A canvas that fits its place: sharp on every screen, drawn only while it is in view, drawn anew when its size or the
   theme changes. */

import { h } from "./dom.js";

const SERIES_COLOURS = 8;
const DASHES = [[], [7, 4], [2, 3]];

export class Surface {
  /* `paint(context, width, height, theme)` draws; `label` says to a screen reader what the picture shows and where its table
     is. `paintOver`, which may be left out, draws what follows the pointer on a sheet above the picture. */
  constructor(label, height, paint, paintOver = null) {
    this.canvas = h("canvas", { role: "img", "aria-label": label });
    this.over = paintOver && h("canvas", { class: "over", "aria-hidden": "true" });
    this.element = h("div", { class: "surface", style: { height: `${height}px` } }, this.canvas, this.over);
    this.sheets = [{ canvas: this.canvas, paint, stale: false }, { canvas: this.over, paint: paintOver, stale: false }];
    this.inView = false;
    this.onTheme = () => this.redraw();
    this.size = new ResizeObserver(() => this.redraw());
    this.view = new IntersectionObserver((entries) => {
      this.inView = entries.at(-1).isIntersecting;
      if (this.inView) {
        this.redraw();
      }
    }, { rootMargin: "100px" });
    this.size.observe(this.element);
    this.view.observe(this.element);
    window.addEventListener("themechange", this.onTheme);
  }

  redraw() {
    this.sheets[0].stale = true;
    this.redrawOver();
  }

  redrawOver() {
    this.sheets[1].stale = Boolean(this.over);
    if (this.inView && !this.waits) {
      this.waits = true;
      requestAnimationFrame(() => {
        this.waits = false;
        this.draw();
      });
    }
  }

  draw() {
    for (const sheet of this.sheets) {
      if (sheet.stale) {
        sheet.stale = false;
        this.drawSheet(sheet);
      }
    }
  }

  drawSheet({ canvas, paint }) {
    const width = this.element.clientWidth;
    const height = this.element.clientHeight;
    if (width === 0 || height === 0) {
      return;
    }
    const ratio = window.devicePixelRatio || 1;
    const wide = Math.round(width * ratio);
    const high = Math.round(height * ratio);
    if (canvas.width !== wide || canvas.height !== high) {
      canvas.width = wide;
      canvas.height = high;
    }
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    paint(context, width, height, theme());
  }

  close() {
    this.size.disconnect();
    this.view.disconnect();
    window.removeEventListener("themechange", this.onTheme);
  }
}

/* The colours of the style sheet, in the theme that holds now. */
export function theme() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  return {
    text: colour("--text"), quiet: colour("--quiet"), line: colour("--line"), surface: colour("--surface"),
      accent: colour("--accent"),
    low: colour("--scale-low"), high: colour("--scale-high"), bad: colour("--bad"),
      font: `12px ${style.getPropertyValue("--sans")}`,
    series: Array.from({ length: SERIES_COLOURS }, (_, i) => colour(`--series-${i + 1}`)),
  };
}

/* The look of the n-th of several curves: a colour, and a dash pattern once the colours are used up. */
export function look(n) {
  return { colour: n % SERIES_COLOURS, dash: DASHES[Math.floor(n / SERIES_COLOURS) % DASHES.length] };
}

/* Gives each key the lowest free number of a look, and keeps what a key has while it is there. `places`: a Map, changed. */
export function assignPlaces(places, keys) {
  for (const key of [...places.keys()].filter((one) => !keys.includes(one))) {
    places.delete(key);
  }
  for (const key of keys.filter((one) => !places.has(one))) {
    const used = new Set(places.values());
    let place = 0;
    while (used.has(place)) {
      place++;
    }
    places.set(key, place);
  }
}

/* A swatch for a legend: the same colour and dashes, as a small picture. */
export function swatch(n) {
  const kind = Math.floor(n / SERIES_COLOURS) % DASHES.length;
  return h("span", { class: `swatch swatch-${kind}`, "aria-hidden": "true",
    style: { "--colour": `var(--series-${(n % SERIES_COLOURS) + 1})` } });
}

/* A colour as #rrggbb: its three channels. */
export function channels(colour) {
  return [0, 1, 2].map((i) => parseInt(colour.slice(1 + 2 * i, 3 + 2 * i), 16));
}

/* Axes with grid lines and ticks; `area` is { left, top, right, bottom } in pixels. */
export function drawAxes(context, colours, area, x, y, xTitle) {
  context.font = colours.font;
  context.lineWidth = 1;
  context.strokeStyle = colours.line;
  context.fillStyle = colours.quiet;
  context.textAlign = "right";
  context.textBaseline = "middle";
  context.beginPath();
  for (const tick of y.ticks(Math.max(2, Math.floor((area.bottom - area.top) / 34)))) {
    const at = Math.round(y.at(tick.value)) + 0.5;
    context.moveTo(area.left, at);
    context.lineTo(area.right, at);
    context.fillText(tick.text, area.left - 8, at);
  }
  context.moveTo(area.left, area.bottom + 0.5);
  context.lineTo(area.right, area.bottom + 0.5);
  context.stroke();
  context.textAlign = "center";
  context.textBaseline = "top";
  for (const tick of x.ticks(Math.max(2, Math.floor((area.right - area.left) / 75)))) {
    context.fillText(tick.text, x.at(tick.value), area.bottom + 7);
  }
  context.textAlign = "right";
  context.fillText(xTitle, area.right, area.bottom + 23);
}
