/* Events over time, in a lane for each kind: what failed is a cross, a take-over a triangle, the rest discs. The list
   below has the words. */

import { Surface } from "./canvas.js";
import { isTakeOver, kindOf, shapeOf } from "./event_kinds.js";
import { h, setText } from "./dom.js";
import { clock } from "./format.js";

const LANES = [["node", "Nodes"], ["coordinator", "Coordinators"], ["trial", "Trials"], ["slot", "Slots"],
  ["other", "Other"]];
const LANE = 22;
const BOTTOM = 24;
const LEFT = 92;
const NEAR_PX = 8;

export class Timeline {
  constructor() {
    this.events = [];
    this.surface = new Surface("Events over time; the list below has their words.", LANES.length * LANE + BOTTOM,
      (...all) => this.paint(...all));
    this.tip = h("div", { class: "tip", hidden: true });
    this.surface.element.append(this.tip);
    this.element = h("section", { class: "panel", hidden: true, "aria-label": "Events over time" }, this.surface.element);
    const { canvas } = this.surface;
    canvas.addEventListener("pointermove", (event) => this.point(event));
    canvas.addEventListener("pointerleave", () => (this.tip.hidden = true));
  }

  set(events) {
    this.events = events;
    this.element.hidden = events.length < 2;
    this.surface.redraw();
  }

  paint(context, width, height, colours) {
    const times = this.events.map((event) => event.wall_ms);
    const from = Math.min(...times);
    const until = Math.max(...times, from + 1000);
    const at = (ms) => LEFT + 8 + ((width - LEFT - 20) * (ms - from)) / (until - from);
    context.font = colours.font;
    LANES.forEach(([, title], i) => {
      context.fillStyle = colours.quiet;
      context.textAlign = "left";
      context.textBaseline = "middle";
      context.fillText(title, 0, (i + 0.5) * LANE);
      context.fillStyle = colours.line;
      context.fillRect(LEFT, (i + 0.5) * LANE, width - LEFT, 1);
    });
    context.fillStyle = colours.quiet;
    context.textBaseline = "alphabetic";
    context.fillText(clock(from), LEFT, height - 6);
    context.textAlign = "right";
    context.fillText(clock(until), width, height - 6);
    this.marks = this.events.map((event) => ({ event, x: at(event.wall_ms),
      y: (LANES.findIndex(([kind]) => kind === kindOf(event)) + 0.5) * LANE }));
    this.marks.forEach((mark) => paintMark(context, colours, mark));
  }

  point(event) {
    const box = this.surface.canvas.getBoundingClientRect();
    const x = event.clientX - box.left;
    const y = event.clientY - box.top;
    const far = (mark) => Math.hypot(mark.x - x, mark.y - y);
    const near = (this.marks ?? []).reduce((a, b) => (a && far(a) <= far(b) ? a : b), null);
    this.tip.hidden = !near || far(near) > NEAR_PX;
    if (!this.tip.hidden) {
      setText(this.tip, `${clock(near.event.wall_ms)} ${near.event.text}`);
      const right = near.x > box.width / 2;
      this.tip.style.left = right ? "auto" : `${near.x + 12}px`;
      this.tip.style.right = right ? `${box.width - near.x + 12}px` : "auto";
    }
  }

  close() {
    this.surface.close();
  }
}

function paintMark(context, colours, { event, x, y }) {
  const shape = shapeOf(event);
  context.strokeStyle = context.fillStyle = shape === "failed" ? colours.bad : isTakeOver(event) ? colours.series[1]
    : colours.accent;
  context.lineWidth = 2;
  context.beginPath();
  if (shape === "failed") {
    context.moveTo(x - 4, y - 4);
    context.lineTo(x + 4, y + 4);
    context.moveTo(x + 4, y - 4);
    context.lineTo(x - 4, y + 4);
    context.stroke();
  } else if (isTakeOver(event)) {
    context.moveTo(x, y - 6);
    context.lineTo(x + 6, y + 5);
    context.lineTo(x - 6, y + 5);
    context.fill();
  } else {
    context.globalAlpha = 0.6;
    context.arc(x, y, 3.5, 0, 2 * Math.PI);
    context.fill();
    context.globalAlpha = 1;
  }
}
