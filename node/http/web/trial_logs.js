/* The log of a trial: the last lines of all workers or of one, followed while it runs, and searched on the nodes that
   hold it. */

import { path } from "./api.js";
import { fill, h, setText } from "./dom.js";
import { whole } from "./format.js";
import { follow } from "./live.js";
import { LogView } from "./log_view.js";

const TAILS = [200, 1000, 10000, 100000];
const TAIL_FIRST = 1000;
const RANKS_MAX = 256;

export function logsPart(context) {
  return new LogsPart(context);
}

class LogsPart {
  constructor({ id, index }) {
    this.address = `/experiments${path(id)}/trials${path(index)}/logs`;
    this.view = new LogView(`Log of trial ${index}`);
    this.note = h("span", { class: "quiet" });
    this.tail = h("select", {}, TAILS.map((count) =>
      h("option", { value: count, selected: count === TAIL_FIRST }, whole(count))));
    this.rank = h("select", {}, h("option", { value: "" }, "all"));
    this.attempt = h("select", {}, h("option", { value: "" }, "newest"), h("option", { value: "all" }, "all"));
    this.pattern = h("input", { type: "search", placeholder: "Search lines", "aria-label": "Only lines with this text",
      maxlength: 256 });
    this.following = h("input", { type: "checkbox", checked: true });
    this.wrap = h("input", { type: "checkbox", checked: true,
      onchange: () => this.view.element.classList.toggle("log-long", !this.wrap.checked) });
    this.element = h("div", {}, this.form(), this.view.element);
  }

  form() {
    const labelled = (...content) => h("label", { class: "check" }, content);
    const onsubmit = (event) => {
      event.preventDefault();
      this.start();
    };
    const onchange = (event) => event.target !== this.wrap && this.start();
    return h("form", { class: "toolbar", onsubmit, onchange }, this.pattern, labelled("Last lines ", this.tail),
      labelled("Worker ", this.rank), labelled("Attempt ", this.attempt), labelled(this.following, "Follow"),
      labelled(this.wrap, "Wrap"), this.note);
  }

  shown() {
    this.start();
  }

  hide() {
    this.stream?.close();
  }

  update({ trial, attempts }) {
    const text = JSON.stringify([(trial.slots ?? []).length, attempts.map((one) => [one.attempt, one.workers])]);
    if (text === this.choicesText) {
      return;
    }
    this.choicesText = text;
    const ranks = Math.max(1, (trial.slots ?? []).length, ...attempts.map((one) => one.workers ?? 0));
    const all = Array.from({ length: Math.min(ranks, RANKS_MAX) }, (_, rank) => [String(rank), `rank ${rank}`]);
    this.offer(this.rank, [["", "all"], ...all]);
    this.offer(this.attempt, [["", "newest"], ["all", "all"],
      ...attempts.map(({ attempt }) => [String(attempt), String(attempt)])]);
  }

  offer(select, choices) {
    const before = select.value;
    fill(select, choices.map(([value, text]) => h("option", { value }, text)));
    select.value = choices.some(([value]) => value === before) ? before : "";
  }

  query() {
    const attempt = this.attempt.value;
    return { tail: this.tail.value, rank: this.rank.value || null, pattern: this.pattern.value || null,
      attempt: attempt && attempt !== "all" ? attempt : null, all_attempts: attempt === "all" ? true : null };
  }

  start() {
    this.stream?.close();
    const begin = () => {
      this.view.clear();
      this.shownAttempt = null;
      this.lines("…");
    };
    begin();
    this.stream = follow(this.address, { ...this.query(), follow: this.following.checked ? true : null },
      (document) => this.take(document), begin);
  }

  /* One reply of the log's stream. True: it was the last. */
  take(reply) {
    if (reply.waiting) {
      this.lines(`Waits: ${reply.waiting}`);
      return false;
    }
    if (reply.bytes !== undefined) {
      this.takeText(reply);
    }
    if (reply.attempts === undefined) {
      return false;
    }
    this.view.flush();
    const lost = [...(reply.unreachable ?? []), ...(reply.lost ?? [])];
    if (lost.length > 0) {
      this.view.note(`What only ${lost.join(", ")} held is missing.`);
    }
    this.lines(this.view.count === 0 ? "No line." : `${whole(this.view.count)} lines`);
    return true;
  }

  takeText(reply) {
    if (reply.before) {
      this.view.note(`Attempt ${reply.before.attempt} ended: ${reply.before.reason}. Attempt ${reply.attempt}:`);
    }
    if (!reply.before && this.shownAttempt !== null && this.shownAttempt !== reply.attempt) {
      this.view.note(`Attempt ${reply.attempt}`);
    }
    this.shownAttempt = reply.attempt;
    if (reply.dropped) {
      this.view.note(`${whole(reply.dropped)} bytes before these are kept no more.`);
    }
    const mark = (reply.workers_max ?? 1) > 1 ? `${reply.rank}` : null;
    this.view.add(`${reply.attempt}/${reply.rank}`, reply.bytes, mark);
    this.lines(`${whole(this.view.count)} lines`);
  }

  lines(text) {
    setText(this.note, text);
  }

  close() {
    this.stream?.close();
  }
}
