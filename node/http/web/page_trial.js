/* Trial: why it is in its state, curves of all its metrics, hyperparameters, attempts, what it left, and its log. */

import { get, path, send } from "./api.js";
import { actionButton } from "./dialog.js";
import * as banner from "./banner.js";
import { fill, h, name } from "./dom.js";
import { clock, duration, fullTime, number, parameter, whole } from "./format.js";
import { flatten } from "./hyperparameters.js";
import { repeat } from "./live.js";
import { logText } from "./log_view.js";
import { link } from "./router.js";
import { stateBadge } from "./state.js";
import { plainTable } from "./table.js";
import { Tabs } from "./tabs.js";
import { filesPart } from "./trial_files.js";
import { logsPart } from "./trial_logs.js";
import { metricsPart } from "./trial_metrics.js";
import { platformPart } from "./trial_platform.js";
import { profilePart } from "./trial_profile.js";

const RUNNING_MS = 1000;
const OVER_MS = 10000;
const NOTES = { failed: "note-bad", running: "note-plain", completed: "note-plain", stopped: "note-plain" };

export function open([id, index], query) {
  const page = new TrialPage(id, index, query);
  return { title: `Trial ${index} of ${id.slice(0, 4)}`, element: page.element, close: () => page.close() };
}

class TrialPage {
  constructor(id, index, query) {
    Object.assign(this, { id, index });
    this.crumbs = h("p", { class: "crumbs" }, h("a", { href: link(["experiments"]) }, "Experiments"), " / ",
      this.parent = h("a", { href: link(["experiments", id]) }, id.slice(0, 4)));
    this.facts = h("div", { class: "facts" });
    this.described = h("p", { hidden: true });
    this.why = h("div");
    this.buttons = h("div", { class: "buttons" });
    const context = { id, index, query };
    this.tabs = new Tabs([
      { id: "curves", title: "Curves", make: () => metricsPart(context) },
      { id: "logs", title: "Logs", make: () => logsPart(context) },
      { id: "overview", title: "Details", make: () => overviewPart() },
      { id: "files", title: "Files", make: () => filesPart(context) },
      { id: "profile", title: "Profile", make: () => profilePart(context) },
      { id: "platform", title: "Platform", make: () => platformPart(context) },
    ], query);
    this.element = h("div", {}, this.crumbs, h("div", { class: "page-head" },
      h("div", {}, h("h1", {}, `Trial ${index}`), this.facts, this.described), this.buttons),
      this.why, this.tabs.element);
    let next = 0;
    this.poll = repeat(RUNNING_MS, async () => {
      if (performance.now() < next) {
        return;
      }
      this.take(await get(`/experiments${path(id)}/trials${path(index)}`));
      next = performance.now() + (this.document.trial.ended_s && this.document.trial.state !== "running" ? OVER_MS : 0);
    });
    this.refresh = () => {
      next = 0;
      this.poll.now();
    };
  }

  take(document_) {
    this.document = document_;
    const { experiment, trial, why } = document_;
    document.title = `${experiment.name}, trial ${this.index} – Shoal`;
    const text = JSON.stringify([experiment, { ...trial, step: 0, metrics: 0 }, why]);
    if (text !== this.text) {
      this.text = text;
      fill(this.parent, name(experiment.name));
      fill(this.buttons, this.actions(trial));
      fill(this.described, trial.description && name(trial.description));
      this.described.hidden = !trial.description;
      this.drawWhy(trial, why ?? []);
    }
    fill(this.facts, this.factLine(experiment, trial));
    this.tabs.update(document_);
  }

  factLine(experiment, trial) {
    const text = JSON.stringify([trial.state, trial.step, trial.metrics, trial.attempt, trial.slots]);
    if (text === this.factText) {
      return this.factElement;
    }
    this.factText = text;
    const values = Object.entries(trial.metrics ?? {}).flatMap(([group, metrics]) =>
      (metrics[experiment.metric] === undefined ? []
      : [h("span", {}, name(`${group} ${experiment.metric}`), " ", h("strong", {}, number(metrics[experiment.metric])))]));
    const places = [...new Set((trial.slots ?? []).map((slot) => `${slot.node_label}/${slot.index}`))];
    this.factElement = h("p", {}, stateBadge(trial.state), h("span", {}, `step ${whole(trial.step)}`), values.slice(0, 3),
      trial.attempt > 1 && h("span", {}, `attempt ${trial.attempt}`), places.length > 0
        && h("span", { class: "quiet" }, `on ${places.join(", ")}`),
      trial.started_s && h("span", { class: "quiet" }, `took ${duration((trial.ended_s
        ?? Date.now() / 1000) - trial.started_s + (trial.before_s ?? 0))}`));
    return this.factElement;
  }

  drawWhy(trial, why) {
    fill(this.why,
      why.map(({ text, at_s }) => h("p", { class: `note ${NOTES[trial.state] ?? ""}` }, sentence(text),
        at_s && h("time", { class: "quiet", title: fullTime(at_s * 1000) }, ` ${clock(at_s * 1000)}`))),
      (trial.notes ?? []).map((text) => h("p", { class: "note" }, text)),
      trial.tail && h("details", { class: "panel", open: trial.state === "failed" },
        h("summary", {}, `The end of the log${trial.tail_attempt ? ` of attempt ${trial.tail_attempt}` : ""}`),
        h("pre", { class: "code", tabindex: "0", role: "region", "aria-label": "The end of the log" },
          logText(trial.tail))));
  }

  actions(trial) {
    const act = (title, done, action, options = {}) => actionButton(title, async (answer) => {
      await send("POST", `/experiments${path(this.id)}/trials${path(this.index)}/${action}`, answer);
      return done;
    }, { ...options, after: () => this.refresh() });
    const retryable = trial.state === "failed" || trial.state === "stopped";
    return [
      h("a", { class: "button small", href: link(["compare"], { runs: `${this.id}/${this.index}` }) }, "Compare"),
      !retryable && trial.state !== "completed" && act("Stop", "The trial saves a checkpoint and stops.", "stop",
        { danger: true,
        question: { title: `Stop trial ${this.index}?`, text: "It saves a checkpoint and ends; its result so far counts.",
          confirm: "Stop it", danger: true } }),
      retryable && act("Retry", "The trial goes on from its newest checkpoint.", "retry"),
      act("Describe…", "The note is changed.", "describe", { question: { title: `Describe trial ${this.index}`, confirm: "Save",
        fields: [{ name: "value", title: "Note", value: trial.description ?? "", maxlength: 255 }] } }),
    ];
  }

  close() {
    this.poll.stop();
    this.tabs.close();
    banner.clear("points");
  }
}

function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1) + (text.endsWith(".") ? "" : ".");
}

/* Hyperparameters and attempts. */
function overviewPart() {
  const element = h("div");
  let text = "";
  return {
    element,
    update({ trial, attempts }) {
      const now = JSON.stringify([trial.hyperparameters, attempts]);
      if (now !== text) {
        text = now;
        fill(element, hyperparameterPanel(trial), attemptPanel(attempts ?? []));
      }
    },
  };
}

function hyperparameterPanel(trial) {
  const values = Object.entries(flatten(trial.hyperparameters));
  return h("section", { class: "panel" }, h("h2", {}, "Hyperparameters"), values.length === 0
    ? h("p", { class: "quiet" }, "None, or not drawn yet.")
    : plainTable("Hyperparameters", ["Name", "Value"], values.map(([key, value]) => [key, parameter(value)])));
}

function attemptPanel(attempts) {
  const heads = ["Attempt", "State", "From step", "To step", "Workers", "Began", "Took", "On", "Why it ended"];
  const rows = attempts.map((one) => [
    String(one.attempt), stateBadge(one.state), whole(one.start_step), whole(one.step), whole(one.workers),
    one.started_s ? clock(one.started_s * 1000) : "–",
    one.started_s ? duration((one.ended_s ?? Date.now() / 1000) - one.started_s) : "–",
    (one.nodes ?? []).join(", "), one.reason ?? "–"]);
  return h("section", { class: "panel" }, h("h2", {}, "Attempts"), rows.length === 0
    ? h("p", { class: "quiet" }, "None yet.")
    : plainTable("Attempts", heads, rows, [2, 3, 4]));
}
