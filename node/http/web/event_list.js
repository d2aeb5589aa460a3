/* Events of a node as a list, the newest first, of all kinds or of one, and over time above it. */

import { fill, h, icon } from "./dom.js";
import { kindOf, shapeOf } from "./event_kinds.js";
import { Timeline } from "./event_timeline.js";
import { clock, fullTime } from "./format.js";

const KEPT = 400;
const SHOWN = 100;
const KINDS = [["", "All events"], ["node", "Nodes that come and go"], ["coordinator", "Coordinators"], ["trial", "Trials"],
  ["slot", "Slots"]];

/* `wanted(event)`: whether an event belongs into this list. */
export function eventList(label, wanted = () => true) {
  const list = h("ol", { class: "events" });
  const nothing = h("p", { class: "quiet" }, "No events yet.");
  const choice = h("select", { "aria-label": `Kind: ${label}`, onchange: () => draw() },
    KINDS.map(([value, title]) => h("option", { value }, title)));
  const timeline = new Timeline();
  const box = h("div", { class: "event-box", tabindex: "0", role: "region", "aria-label": label }, nothing, list);
  let events = [];
  const made = new Map();
  const line = (event) => {
    if (!made.has(event.seq)) {
      const shape = shapeOf(event);
      made.set(event.seq, h("li", {}, h("time", { datetime: new Date(event.wall_ms).toISOString(),
        title: fullTime(event.wall_ms) }, clock(event.wall_ms)),
      h("span", { class: `event event-${shape}` }, icon(shape), h("bdi", {}, event.text))));
    }
    return made.get(event.seq);
  };
  const draw = () => {
    const shown = events.filter((event) => !choice.value || kindOf(event) === choice.value);
    nothing.hidden = shown.length > 0;
    fill(list, shown.slice(0, SHOWN).map(line));
    timeline.set(shown);
  };
  return {
    element: h("div", {}, h("div", { class: "toolbar" }, choice), timeline.element, box),
    add(more) {
      const known = new Set(events.map((event) => event.seq));
      const fresh = more.filter((event) => !known.has(event.seq) && wanted(event));
      if (fresh.length > 0 || events.length === 0) {
        events = [...events, ...fresh].sort((a, b) => b.seq - a.seq).slice(0, KEPT);
        draw();
      }
    },
    clear() {
      events = [];
      made.clear();
    },
    close: () => timeline.close(),
  };
}
