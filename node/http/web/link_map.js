/* Which node reaches which, as each node says of itself: a table with a row and a column for each living node. */

import { h, icon, name } from "./dom.js";
import { plural } from "./format.js";
import { plainTable } from "./table.js";

const NODES_MAX = 24;

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
