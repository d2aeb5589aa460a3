/* What the ranks of a trial use, where the time of their steps goes, and a trace of the next steps. */

import { getText, path } from "./api.js";
import * as banner from "./banner.js";
import { CurvePanel } from "./curve_panel.js";
import { fill, h, setText } from "./dom.js";
import { number } from "./format.js";
import { repeat } from "./live.js";
import { POINTS, loadProfile } from "./metrics.js";
import { plainTable } from "./table.js";

const ASK_MS = 4000;
const TRACE_STEPS = 3;
const SPLIT = [["compute_s", "Computing"], ["collective_s", "Collectives"], ["data_s", "Waiting for data"]];
const PICTURES = [
  ["time/step_s", "Seconds of a step"], ["system/cpu_percent", "Processors, %"], ["system/memory_bytes", "Memory, bytes"],
  ["system/gpu_percent", "GPU, %"], ["system/gpu_memory_bytes", "GPU memory, bytes"], ["system/gpu_watts", "GPU power, W"],
  ["system/gpu_celsius", "GPU temperature, °C"], ["system/disk_read_bytes_s", "Read from disk, bytes/s"],
  ["system/disk_written_bytes_s", "Written to disk, bytes/s"], ["system/network_sent_bytes_s", "Sent, bytes/s"],
  ["system/network_received_bytes_s", "Received, bytes/s"],
];

export function profilePart(context) {
  return new ProfilePart(context);
}

class ProfilePart {
  constructor({ id, index }) {
    Object.assign(this, { id, index });
    this.runs = true;
    this.abort = new AbortController();
    this.panels = new Map();
    this.traceButton = h("button", { type: "button", class: "small", onclick: () => this.trace() },
      `Trace the next ${TRACE_STEPS} steps`);
    this.traceNote = h("span", { class: "quiet", role: "status" });
    this.split = h("div", {}, h("p", { class: "quiet" }, "Loading."));
    this.grid = h("div", { class: "curve-grid" });
    this.element = h("div", {},
      h("section", { class: "panel" }, h("div", { class: "panel-head" }, h("h2", {}, "Where a step's time goes"),
        h("span", { class: "tools" }, this.traceButton)), this.traceNote, this.split), this.grid);
    this.poll = repeat(ASK_MS, () => this.load());
  }

  update({ trial }) {
    this.runs = trial.state === "running";
    this.traceButton.hidden = !this.runs;
  }

  async load() {
    const { series, unreachable } = await loadProfile(this.id, this.index, POINTS, this.abort.signal);
    banner.missingPoints(unreachable);
    this.drawSplit(series);
    this.drawPictures(series);
    if (!this.runs) {
      this.poll.stop(); /* nothing more comes */
    }
  }

  drawSplit(series) {
    const rows = ranksOf(series, "time").map((rank) => {
      const last = (name) => series.get(`time/rank${rank}/${name}`)?.last.at(-1) ?? null;
      const step = last("step_s");
      const parts = SPLIT.map(([name]) => last(name));
      return [`rank ${rank}`, `${number(step)} s`, ...parts.map((part) => share(part, step))];
    });
    fill(this.split, rows.length === 0
      ? h("p", { class: "quiet" }, "Programs with libshoal or import shoal tell; this one has not yet.")
      : plainTable("Where a step's time goes", ["Rank", "A step", ...SPLIT.map(([, title]) => title)], rows, [1, 2, 3, 4]));
  }

  drawPictures(series) {
    for (const [key, title] of PICTURES) {
      const [group, metric] = key.split("/");
      const runs = ranksOf(series, group).map((rank) => ({ key: `rank ${rank}`, title: `rank ${rank}`, place: rank,
        series: series.get(`${group}/rank${rank}/${metric}`) })).filter((run) => run.series);
      if (runs.length > 0 && !this.panels.has(key)) {
        const panel = new CurvePanel({ title });
        panel.setByTime(true);
        this.panels.set(key, panel);
      }
      this.panels.get(key)?.setRuns(runs);
    }
    const shown = PICTURES.map(([key]) => this.panels.get(key)?.element).filter(Boolean);
    if (shown.length !== this.grid.children.length) {
      fill(this.grid, shown);
    }
  }

  /* The browser would not tell why a link gave no file. */
  async trace() {
    this.traceButton.disabled = true;
    setText(this.traceNote, "The ranks record their next steps.");
    try {
      const text = await getText(`/experiments${path(this.id)}/trials${path(this.index)}/trace`, { steps: TRACE_STEPS },
        this.abort.signal);
      const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
      h("a", { href: address, download: `trial-${this.index}-trace.json` }).click();
      setTimeout(() => URL.revokeObjectURL(address), ASK_MS);
      setText(this.traceNote, "The trace opens in chrome://tracing and ui.perfetto.dev.");
    } catch (problem) {
      setText(this.traceNote, problem.message);
    }
    this.traceButton.disabled = false;
  }

  close() {
    this.poll.stop();
    this.abort.abort();
    for (const panel of this.panels.values()) {
      panel.close();
    }
  }
}

function ranksOf(series, group) {
  const found = new Set();
  for (const key of series.keys()) {
    const match = key.match(/^([a-z]+)\/rank(\d+)\//);
    if (match && match[1] === group) {
      found.add(Number(match[2]));
    }
  }
  return [...found].sort((a, b) => a - b);
}

function share(part, whole) {
  return part === null || !(whole > 0) ? "–" : `${Math.round((100 * part) / whole)} %`;
}
