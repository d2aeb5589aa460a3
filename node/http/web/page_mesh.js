/* Mesh: which nodes there are, what their slots do and for what, and the latest events. */

import { get, path, send, session } from "./api.js";
import { actionButton } from "./dialog.js";
import { fill, h, name, setText } from "./dom.js";
import { eventList } from "./event_list.js";
import { duration, plural, whole } from "./format.js";
import { LinkNumbers, linkMap } from "./link_map.js";
import { calm, follow, repeat } from "./live.js";
import { fillButtons, menu } from "./menu.js";
import { link } from "./router.js";
import { makeTile } from "./slot_tile.js";
import { stateBadge } from "./state.js";

const LISTS_MS = 5000;
const USAGE_MS = 3000;

export function open() {
  const page = new MeshPage();
  return { title: "Mesh", element: page.element, close: () => page.close() };
}

class MeshPage {
  constructor() {
    this.sums = h("dl", { class: "sums" });
    this.waiting = h("div");
    this.list = h("div", { class: "nodes" });
    this.links = h("div");
    this.linkNumbers = new LinkNumbers();
    this.events = eventList("Latest events of this node");
    this.cards = new Map();
    this.usage = new Map();
    this.element = h("div", {}, h("h1", {}, "Mesh"), this.sums, this.waiting, this.list,
      this.links, this.linkNumbers.element,
      h("section", {}, h("h2", {}, "Events"), this.events.element));
    this.lists = repeat(LISTS_MS, () => this.load());
    this.use = repeat(USAGE_MS, () => this.loadUsage());
    const soon = calm(300, () => this.lists.now());
    this.stream = follow("/events", { follow: true }, (document) => {
      this.events.add(document.events ?? []);
      soon();
    }, () => this.events.clear());
  }

  async load() {
    const [status, nodes, slots, stats] = await Promise.all([get("/status"), get("/nodes"), get("/slots"),
      get("/stats")]);
    this.here = status.node.id;
    this.drawSums(status);
    this.drawWaiting(status.waiting ?? []);
    this.drawNodes(nodes.nodes, slots.slots);
    this.drawLinks(nodes.nodes);
    this.linkNumbers.draw(stats.links ?? []);
  }

  async loadUsage() {
    const { usage } = await get("/usage");
    this.usage = new Map(usage.map((one) => [`${one.node}/${one.index}`, one]));
    for (const card of this.cards.values()) {
      for (const tile of card.tiles.values()) {
        tile.setUsage(this.usage.get(tile.key));
      }
    }
  }

  drawSums(status) {
    const sums = [["Nodes alive", `${status.nodes_alive} of ${status.nodes}`],
      ["Slots free", `${status.slots_free} of ${status.slots}`],
      ["Live experiments", `${whole(status.experiments_live)} of ${whole(status.experiments)}`], ["Version", status.version],
      ["This node is up", duration(status.uptime_s)]];
    if (this.sums.children.length !== sums.length) {
      fill(this.sums, sums.map(([title]) => h("div", {}, h("dt", {}, title), h("dd"))));
    }
    sums.forEach(([, text], i) => setText(this.sums.children[i].lastChild, text));
  }

  drawWaiting(waiting) {
    const text = JSON.stringify(waiting);
    if (text !== this.waitingText) {
      this.waitingText = text;
      fill(this.waiting, waiting.length > 0 && h("section", { class: "panel" }, h("h2", {}, "What waits, and why"),
        h("ul", { class: "plain" }, waiting.map((one) => h("li", {}, h("a", { href: link(["experiments", one.experiment]) },
          name(one.name)),
          `, ${plural(one.trials, "trial")}: ${one.reason}`)))));
    }
  }

  drawLinks(nodes) {
    const text = JSON.stringify(nodes.map((node) => [node.id, node.label, node.state, node.links]));
    if (text !== this.linksText) {
      this.linksText = text;
      fill(this.links, linkMap(nodes));
    }
  }

  drawNodes(nodes, slots) {
    const isHere = (node) => node.id === this.here;
    const rank = (node) => (isHere(node) ? 0 : node.state === "alive" ? 1 : node.state === "suspect" ? 2
      : node.state === "dead" ? 3 : 4);
    const sorted = [...nodes].sort((a, b) => rank(a) - rank(b) || a.label.localeCompare(b.label, "en", { numeric: true }));
    const kept = new Map();
    for (const node of sorted) {
      const card = this.cards.get(node.id) ?? new NodeCard(node.id, () => this.lists.now());
      card.update(node, slots.filter((slot) => slot.node === node.id), isHere(node), this.usage);
      kept.set(node.id, card);
    }
    this.cards = kept;
    fill(this.list, [...kept.values()].map((card) => card.element));
  }

  close() {
    this.lists.stop();
    this.use.stop();
    this.stream.close();
    this.events.close();
  }
}

/* The clocks of two nodes are compared to within a second or so. */
function clockText(ahead) {
  return Math.abs(ahead ?? 0) < 3 ? null : ahead > 0 ? `clock ${ahead} s ahead` : `clock ${-ahead} s behind`;
}

/* One node with its slots. */
class NodeCard {
  constructor(id, changed) {
    this.id = id;
    this.changed = changed;
    this.tiles = new Map();
    this.title = h("h2");
    this.facts = h("p", { class: "quiet facts" });
    this.notes = h("div");
    this.buttons = h("div", { class: "buttons" });
    this.grid = h("div", { class: "tiles" });
    this.element = h("section", { class: "panel node" }, h("div", { class: "panel-head" },
      h("div", {}, this.title, this.facts), this.buttons),
      this.notes, this.grid);
  }

  update(node, slots, isHere, usage) {
    const text = JSON.stringify([node, isHere, session.readOnly]);
    if (text !== this.text) {
      this.text = text;
      this.drawHead(node, isHere);
    }
    const kept = new Map();
    for (const slot of slots.sort((a, b) => a.index - b.index)) {
      const tile = this.tiles.get(slot.index) ?? makeTile(`${node.id}/${slot.index}`, this.changed);
      tile.update(slot);
      tile.setUsage(usage.get(tile.key));
      kept.set(slot.index, tile);
    }
    this.tiles = kept;
    fill(this.grid, kept.size > 0 ? [...kept.values()].map((tile) => tile.element)
      : h("p", { class: "quiet" }, "No slots."));
  }

  drawHead(node, isHere) {
    fill(this.title, name(node.label), " ", stateBadge(node.state), node.drained
      && stateBadge("drained", node.emptied ? "drained, empty" : "draining"),
      isHere && h("span", { class: "tag" }, "serves this page"));
    setText(this.facts, [node.address, node.version && `version ${node.version}`, plural(node.slots ?? 0, "slot"),
      clockText(node.clock_ahead_s)].filter(Boolean).join(" · "));
    fill(this.notes, node.quarantined && h("p", { class: "note" },
      `Trials avoid this node for ${plural(node.quarantined.minutes, "minute")}: ${node.quarantined.reason}`));
    fillButtons(this.buttons, this.actions(node));
  }

  actions(node) {
    const act = (title, done, address, body, options = {}) => actionButton(title, async () => {
      await send("POST", address, body);
      return done;
    }, { ...options, after: this.changed });
    const ofNode = `/nodes${path(node.id)}`;
    const buttons = [];
    if (node.state === "alive" || node.state === "suspect") {
      buttons.push(node.drained ? act("Undrain", `${node.label} gets work again.`, `${ofNode}/undrain`, {})
        : act("Drain", `${node.label} gets no new work.`, `${ofNode}/drain`, {}, { question: { title: `Drain ${node.label}?`,
          text: "The node gets no new work; what runs there goes on to its end.", confirm: "Drain" } }));
      buttons.push(act("Drain now", `The workers of ${node.label} save and move.`, `${ofNode}/drain`, { now: true },
        { question: {
        title: `Drain ${node.label} now?`, text: "Its workers save a checkpoint and go on elsewhere.",
          confirm: "Drain now" } }));
    }
    if (node.state === "alive" && node.slots > 0) {
      buttons.push(act("Withhold all", `All slots of ${node.label} are withheld.`, `${ofNode}/withhold`, {}, { question: {
        title: `Withhold all slots of ${node.label}?`, text: "Work in them saves a checkpoint and goes on elsewhere.",
        confirm: "Withhold" } }));
      buttons.push(act("Return all", `All slots of ${node.label} are back.`, `${ofNode}/return`, {}));
    }
    if (node.state === "dead") {
      buttons.push(act("Evict", `${node.label} is no member any more.`, `${ofNode}/evict`, {}, { danger: true, question: {
        title: `Evict ${node.label}?`,
          text: "The node is no member of the mesh any more, for good. Its key is not accepted again.",
        confirm: "Evict", danger: true } }));
    }
    return buttons.length > 1 ? [buttons[0], menu("More", buttons.slice(1))] : buttons;
  }
}
