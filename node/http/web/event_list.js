/* Events of a node as a list, the newest first. */

import { fill, h } from "./dom.js";
import { clock, fullTime } from "./format.js";

const SHOWN = 100;

/* `wanted(event)`: whether an event belongs into this list. */
export function eventList(label, wanted = () => true) {
  const list = h("ol", { class: "events" });
  const nothing = h("p", { class: "quiet" }, "No events yet.");
  const element = h("div", { class: "event-box", tabindex: "0", role: "region", "aria-label": label }, nothing, list);
  let events = [];
  const made = new Map();
  const draw = () => {
    nothing.hidden = events.length > 0;
    fill(list, events.map((event) => {
      if (!made.has(event.seq)) {
        made.set(event.seq, h("li", {}, h("time", { datetime: new Date(event.wall_ms).toISOString(),
          title: fullTime(event.wall_ms) },
          clock(event.wall_ms)), h("bdi", {}, event.text)));
      }
      return made.get(event.seq);
    }));
  };
  return {
    element,
    add(more) {
      const known = new Set(events.map((event) => event.seq));
      const fresh = more.filter((event) => !known.has(event.seq) && wanted(event));
      if (fresh.length > 0 || events.length === 0) {
        events = [...events, ...fresh].sort((a, b) => b.seq - a.seq).slice(0, SHOWN);
        draw();
      }
    },
    clear() {
      events = [];
      made.clear();
    },
  };
}
