/* Which node reaches which, as each node says of itself: a table with a row and a column for each living node. And what
   the node that shows the page measures of its own links. */

import { fill, h, icon, name, setText } from "./dom.js";
import { bytes, number, plural } from "./format.js";
import { plainTable } from "./table.js";

const NODES_MAX = 24;
const RATE_MS = 2000;
const HEADS = ["To", "Round trip", "Sends", "Receives", "Sent", "Received"];

/* Null where a table says nothing: one node, or very many. */
export function linkMap(nodes) {
  const living = nodes.filter((node) => node.state === "alive" || node.state === "suspect")
    .sort((a, b) => a.label.localeCompare(b.label, "en", { numeric: true }));
  if (living.length < 2 || living.length > NODES_MAX) {
    return null;
  }
  const rows = living.map((from) => [name(from.label), ...living.map((to) => (from === to ? "" : cell(from, to)))]);
  const gaps = living.reduce((sum, node) => sum + (node.links?.unreached?.length ?? 0), 0);
  return h("section", { class: "panel" }, h("h2", {}, "Links"), h("p", { class: "quiet" }, gaps === 0
    ? "Each node reaches every other one on every network that both have."
    : `${plural(gaps, "link does", "links do")} not work on some network: a row is the node that looked.`),
  plainTable("Which node reaches which", ["From", ...living.map((node) => name(node.label))], rows));
}

/* What the node that shows the page measures of its links: a table whose cells stay from one update to the next. */
export class LinkNumbers {
  constructor() {
    this.element = h("div");
    this.before = null; /* the links, and when they were so */
  }

  /* `links` as /stats has them. Rates are over the time since the numbers before: at least RATE_MS, since an event asks at
     once. */
  draw(links) {
    const now = performance.now();
    const ms = this.before ? now - this.before.at : 0;
    if (this.before && ms < RATE_MS) {
      return;
    }
    const sorted = [...links].sort((a, b) => a.label.localeCompare(b.label, "en", { numeric: true }));
    const rows = sorted.map((link) => [link.label, roundTrip(link.round_trip_us), ...numbersOf(link, this.before, ms)]);
    const key = JSON.stringify(sorted.map((link) => [link.node, link.label]));
    this.before = { at: now, links: new Map(links.map((link) => [link.node, link])) };
    if (key !== this.key) {
      this.key = key;
      fill(this.element, rows.length > 0 && h("section", { class: "panel" }, h("h2", {}, "Links of this node"),
        plainTable("What this node measures of its links", HEADS, rows, [1, 2, 3, 4, 5])));
      return;
    }
    this.element.querySelectorAll("tbody tr").forEach((line, i) => rows[i].forEach((text, k) =>
      setText(line.children[k].firstChild, text)));
  }
}

/* What goes each way in a second, and has gone since the daemon began. */
function numbersOf(link, before, ms) {
  const earlier = before?.links.get(link.node);
  const rate = (key) => (earlier && link[key] >= earlier[key] ? `${bytes((link[key] - earlier[key]) / (ms / 1000))}/s` : "–");
  return [rate("sent_bytes"), rate("received_bytes"), bytes(link.sent_bytes), bytes(link.received_bytes)];
}

function roundTrip(us) {
  return us === null || us === undefined ? "–" : us < 1000 ? `${us} µs` : `${number(Math.round(us / 100) / 10)} ms`;
}

function cell(from, to) {
  if (!from.links) {
    return "?";
  }
  const gap = from.links.unreached.find((one) => to.id.startsWith(one.node));
  if (!gap) {
    return h("span", { class: "copy" }, icon("completed"), h("span", { class: "unseen" }, "reached"));
  }
  const none = gap.networks >= from.links.networks;
  return h("span", { class: none ? "state state-failed" : "state state-warning" }, icon(none ? "failed" : "warning"),
    none ? "not reached" : `not on ${gap.networks} of ${plural(from.links.networks, "network")}`);
}
