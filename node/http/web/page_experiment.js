/* Experiment: its state and what can be done with it; trials, charts, the search's rungs, configuration and events. */

import { get, path } from "./api.js";
import { experimentActions } from "./experiment_actions.js";
import { chartsPart } from "./experiment_charts.js";
import { configurationPart } from "./experiment_configuration.js";
import { rungsPart } from "./experiment_rungs.js";
import { trialsPart } from "./experiment_trials.js";
import * as banner from "./banner.js";
import { fill, h, name, setText } from "./dom.js";
import { eventList } from "./event_list.js";
import { ago, fullTime, number, plural } from "./format.js";
import { follow, repeat } from "./live.js";
import { link } from "./router.js";
import { fillButtons } from "./menu.js";
import { Selection } from "./selection.js";
import { countsText, isOver, progress, stateBadge } from "./state.js";
import { Tabs } from "./tabs.js";

/* The stream of an experiment sends all of its trials at every change: beyond this many the page asks now and then
   instead. */
const STREAMED_TRIALS_MAX = 1000;
const FIRST_TRIALS = 100;
const REMOTE = { index: "index", state: "state", metric: "metric", step: "step", started: "started_s" }; /* by column */
const ASK_MS = 2000;
const ASK_SHARE = 10; /* of the time, at most a tenth goes into an answer */
const OVER_MS = 15000;

export function open([id], query) {
  const page = new ExperimentPage(id, query);
  return { title: `Experiment ${id.slice(0, 4)}`, element: page.element, close: () => page.close() };
}

class ExperimentPage {
  constructor(id, query) {
    this.id = id;
    this.closed = false;
    this.page = { limit: FIRST_TRIALS };
    this.isSettled = false;
    this.query = query;
    this.selection = new Selection();
    this.title = h("h1", {}, `Experiment ${id.slice(0, 4)}`);
    this.facts = h("div", { class: "facts" });
    this.notes = h("div");
    this.buttons = h("div", { class: "buttons" });
    this.buttonsFor = "";
    const context = { id, selection: this.selection, query, pages: this.pages() };
    this.tabs = new Tabs([
      { id: "trials", title: "Trials", make: () => trialsPart(context) },
      { id: "charts", title: "Charts", make: () => chartsPart(context) },
      { id: "search", title: "Search", make: () => rungsPart(context) },
      { id: "configuration", title: "Configuration", make: () => configurationPart(context) },
      { id: "events", title: "Events", make: () => eventsPart(context) },
    ], query);
    this.element = h("div", {}, h("p", { class: "crumbs" }, h("a", { href: link(["experiments"]) }, "Experiments")),
      h("div", { class: "page-head" }, h("div", {}, this.title, this.facts), this.buttons), this.notes, this.tabs.element);
    this.start();
  }

  start() {
    let next = 0;
    this.poll = repeat(ASK_MS, async () => {
      if (performance.now() < next || this.stream) {
        return;
      }
      const began = performance.now();
      this.take(await get(`/experiments${path(this.id)}`, this.page));
      this.pauseMs = Math.max(ASK_MS, ASK_SHARE * (performance.now() - began));
      next = this.settlePage() ? performance.now() + this.pauseOf(this.experiment) : 0;
      this.maybeFollow();
    });
    this.refresh = () => {
      next = 0;
      this.poll.now();
    };
  }

  /* The first question is for a hundred trials. Of an experiment that has more, but not very many, all are asked for
     then; of a large one the best hundred. False: another question has to follow. */
  settlePage() {
    const { trials, counts, smaller_is_better: smaller } = this.experiment;
    if (this.isSettled || trials.length === counts.total) {
      this.isSettled = true;
      return true;
    }
    this.isSettled = true;
    this.page = counts.total > STREAMED_TRIALS_MAX ? this.firstPage(smaller) : {};
    return false;
  }

  /* The page of a large experiment that the address names; without one the best trials. */
  firstPage(smaller) {
    const wanted = this.query.get("sort");
    const sort = wanted?.startsWith("hp.") ? wanted : REMOTE[wanted];
    const from = FIRST_TRIALS * Math.max(0, Number(this.query.get("page") ?? 1) - 1 || 0);
    return { from, limit: FIRST_TRIALS, sort: sort ?? "metric", descending: sort ? this.query.get("down") === "1" : !smaller,
      ...(this.query.get("states") && { states: this.query.get("states") }),
      ...(this.query.get("where") && { where: this.query.get("where") }) };
  }

  /* What the parts of the page may ask for: another page of a large experiment, or all of it. */
  pages() {
    const change = (page) => {
      this.page = page;
      this.stream?.close();
      this.stream = null;
      this.refresh();
    };
    return { ask: change, all: () => change({}), now: () => this.page };
  }

  /* An experiment that is over changes only by what users do with it; a large one is not asked for again for that. */
  pauseOf(one) {
    const over = isOver(one.state);
    return over && one.trials.length > STREAMED_TRIALS_MAX ? Infinity : over ? OVER_MS : this.pauseMs;
  }

  maybeFollow() {
    const many = this.experiment.trials.length > STREAMED_TRIALS_MAX;
    if (this.closed || this.stream || !this.isSettled || isOver(this.experiment.state) || many) {
      return;
    }
    this.stream = follow(`/experiments${path(this.id)}/watch`, this.page, (document) => {
      this.take(document);
      if (isOver(document.experiment.state)) {
        this.stream = null;
        return true;
      }
      return false;
    });
  }

  take(document) {
    this.experiment = document.experiment;
    this.draw();
    this.tabs.update(this.experiment);
  }

  draw() {
    const one = this.experiment;
    document.title = `${one.name} – Shoal`;
    const text = JSON.stringify([one.name, one.state, one.counts, one.best, one.coordinator_label, one.labels,
      one.description, one.pinned,
      one.archived, one.priority, one.slots_per_trial]);
    if (text !== this.drawn) {
      this.drawn = text;
      fill(this.title, name(one.name));
      fill(this.facts, this.factLines(one));
    }
    const buttonsFor = JSON.stringify([one.state, one.pinned, one.archived, one.priority, one.labels, one.description,
      one.counts.total]);
    if (buttonsFor !== this.buttonsFor) {
      this.buttonsFor = buttonsFor;
      fillButtons(this.buttons, experimentActions(one, () => this.refresh()));
    }
    this.drawNotes(one);
  }

  factLines(one) {
    const best = one.best && h("span", {}, `best ${one.metric} `, h("a", { href: link(
      ["experiments", this.id, "trials", one.best.trial]) },
      `${number(one.best.value)} (trial ${one.best.trial})`));
    return [
      h("p", {}, stateBadge(one.state), progress(one.counts), h("span", { class: "quiet" }, countsText(one.counts)), best),
      h("p", { class: "quiet" }, h("span", { class: "code-text" }, this.id),
        h("time", { title: fullTime(one.submitted_s * 1000) }, `submitted ${ago(one.submitted_s)}`),
        h("span", {}, one.coordinator_label ? `coordinated by ${one.coordinator_label}, term ${one.term}`
          : "not coordinated now"),
        h("span", {}, `priority ${one.priority}`), one.slots_per_trial && h("span", {},
          `${plural(one.slots_per_trial, "slot")} per trial`)),
      (one.description || Object.keys(one.labels ?? {}).length > 0) && h("p", {}, one.description && name(one.description),
        Object.entries(one.labels ?? {}).map(([key, value]) => h("span", { class: "tag" },
          name(value ? `${key}=${value}` : key)))),
    ];
  }

  drawNotes(one) {
    const lines = [];
    if (one.lacks) {
      lines.push(`No trial can begin: one needs at least ${one.lacks.slots} slots of kind ${one.lacks.kind}, `
        + `and all nodes together have ${one.lacks.present}.`);
    }
    for (const wait of (Array.isArray(one.waiting) ? one.waiting : []).slice(0, 5)) {
      lines.push(`${wait.first === wait.last ? `Trial ${wait.first} waits`
        : `${wait.count} trials from ${wait.first} to ${wait.last} wait`}: ${wait.reason}`);
    }
    const missing = (one.program?.nodes ?? []).filter((node) => node.has === false);
    if (missing.length > 0) {
      lines.push(`The program ${one.program.name} is not on ${missing.map((node) => node.label).join(", ")}.`);
    }
    const text = lines.join("\n");
    if (text !== this.notesText) {
      this.notesText = text;
      fill(this.notes, lines.map((line) => h("p", { class: "note" }, line)));
    }
  }

  close() {
    this.closed = true;
    this.poll.stop();
    this.stream?.close();
    this.tabs.close();
    banner.clear("points");
  }
}

/* Events of this node that are about the experiment. */
function eventsPart({ id }) {
  const list = eventList("Events of this experiment");
  const note = h("p", { class: "quiet" }, "Events of this node that are about the experiment, of the last 30 days.");
  let next = 1;
  const poll = repeat(3000, async () => {
    const { events } = await get("/events", { experiment: id, from: next });
    next = 1 + (events ?? []).reduce((last, event) => Math.max(last, event.seq), next - 1);
    list.add(events ?? []);
  });
  return { element: h("div", {}, note, list.element), close() {
    poll.stop();
    list.close();
  } };
}
