/* What a program's own SummaryWriter wrote into event files: pictures, histograms and text, the newest of each tag, older
   ones by a slider. */

import { getBytes, path } from "./api.js";
import { Surface, drawAxes } from "./canvas.js";
import { fill, h, name, setText } from "./dom.js";
import { plural, whole } from "./format.js";
import { makeScale } from "./scale.js";
import { readEvents } from "./tfevents.js";

const FILE = /(^|\/)events\.out\.tfevents\.[^/]*$/;
const BYTES_MAX = 32 << 20; /* of all files together: more takes a TensorBoard */
const TAGS_MAX = 36;
const HEIGHT = 180;
const BINS = 60; /* of a histogram */

export function isEventFile(row) {
  return row.kind === "file" && FILE.test(row.path);
}

export class Summaries {
  constructor(address) {
    this.address = address;
    this.surfaces = [];
    this.note = h("p", { class: "quiet small-text" });
    this.grid = h("div", { class: "curve-grid" });
    this.element = h("section", { class: "summaries", hidden: true }, h("h2", {}, "From the program's summaries"),
      this.note, this.grid);
  }

  async update(rows) {
    const files = rows.filter(isEventFile).sort((a, b) => a.path.localeCompare(b.path));
    let left = BYTES_MAX;
    const read = files.filter((row) => (left -= row.bytes) >= 0);
    const tags = new Map();
    for (const row of read) {
      const bytes = await getBytes(`${this.address}/outputs${path(row.number)}/file`, { path: row.path });
      for (const [tag, values] of readEvents(bytes)) {
        tags.set(tag, [...tags.get(tag) ?? [], ...values]);
      }
    }
    this.close();
    const all = [...tags].sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }));
    this.element.hidden = all.length === 0;
    setText(this.note, [all.length > TAGS_MAX && `The first ${TAGS_MAX} of ${plural(all.length, "tag")}.`,
      read.length < files.length && "Only the first 32 MiB of event files are read: shoal tensorboard shows all."]
      .filter(Boolean).join(" "));
    fill(this.grid, all.slice(0, TAGS_MAX).map(([tag, values]) => this.panel(tag, values)));
  }

  panel(tag, values) {
    const place = h("div");
    const at = h("span", { class: "quiet count" });
    const show = (i) => {
      setText(at, `step ${whole(values[i].step)}`);
      fill(place, this.content(tag, values[i]));
    };
    const slider = h("input", { type: "range", min: 0, max: values.length - 1, value: values.length - 1,
      "aria-label": `Step of ${tag}`, oninput: () => show(Number(slider.value)) });
    show(values.length - 1);
    return h("section", { class: "panel" }, h("div", { class: "panel-head" }, h("h2", {}, name(tag)), at), place,
      values.length > 1 && slider);
  }

  content(tag, value) {
    if (value.kind === "image") {
      return h("img", { class: "whole", alt: `Picture ${tag} of step ${value.step}`, src: dataAddress(value.data) });
    }
    if (value.kind === "text") {
      return h("pre", { class: "code preview", tabindex: "0", role: "region", "aria-label": tag }, value.text);
    }
    const sum = value.bars.reduce((total, bar) => total + bar.count, 0);
    const surface = new Surface(`Histogram ${tag} of step ${value.step}: ${whole(sum)} values in ${value.bars.length} bars.`,
      HEIGHT, (...all) => paintBars(value.bars, ...all));
    this.surfaces.push(surface);
    return surface.element;
  }

  close() {
    this.surfaces.forEach((surface) => surface.close());
    this.surfaces = [];
  }
}

/* In an address of its own a picture needs no request; its kind is told by its first bytes. */
function dataAddress(bytes) {
  const kind = bytes?.[0] === 0xff ? "image/jpeg" : bytes?.[0] === 0x47 ? "image/gif" : "image/png";
  let binary = "";
  for (let i = 0; i < (bytes?.length ?? 0); i += 8192) {
    binary += String.fromCharCode(...bytes.subarray(i, i + 8192));
  }
  return `data:${kind};base64,${btoa(binary)}`;
}

/* The bars of a file are narrow around 0 and wide far from it, so they are dealt into bins of one width. */
function paintBars(bars, context, width, height, colours) {
  const low = bars[0]?.left;
  const high = bars.at(-1)?.right;
  if (!(high > low)) {
    return;
  }
  const bins = new Float64Array(BINS);
  const place = (value) => ((value - low) / (high - low)) * BINS;
  for (const bar of bars) {
    const from = place(bar.left);
    const until = Math.max(place(bar.right), from + 1e-9);
    for (let i = Math.floor(from); i < Math.min(BINS, until); i++) {
      bins[i] += (bar.count * (Math.min(until, i + 1) - Math.max(from, i))) / (until - from);
    }
  }
  const area = { left: 12, top: 8, right: width - 12, bottom: height - 40 };
  const x = makeScale(low, high, area.left, area.right);
  const y = makeScale(0, Math.max(...bins), area.bottom, area.top);
  drawAxes(context, colours, area, x, { ...y, ticks: () => [] }, "value");
  context.fillStyle = colours.accent;
  context.globalAlpha = 0.75;
  const wide = (area.right - area.left) / BINS;
  bins.forEach((count, i) => context.fillRect(area.left + i * wide, y.at(count), Math.max(1, wide - 1),
    area.bottom - y.at(count)));
  context.globalAlpha = 1;
}
