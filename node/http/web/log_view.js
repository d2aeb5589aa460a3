/* Lines of a log: appended in blocks of 200, which the browser lays out only when they come into view, with the oldest
   dropped beyond a limit. Follows the end while the user is at the end. */

import { parts } from "./ansi.js";
import { h } from "./dom.js";

const BLOCK_LINES = 200;
const LINES_MAX = 100000;

export class LogView {
  constructor(label) {
    this.element = h("div", { class: "log", role: "log", "aria-live": "off", "aria-label": label, tabindex: "0" });
    this.follows = true;
    this.clear();
    this.element.addEventListener("scroll", () => {
      const { scrollTop, scrollHeight, clientHeight } = this.element;
      this.follows = scrollHeight - scrollTop - clientHeight < 40;
    });
  }

  clear() {
    this.element.replaceChildren();
    this.count = 0;
    this.block = null;
    this.inBlock = 0;
    this.sources = new Map();
  }

  /* Bytes of one worker's output, as hexadecimal text. A line that has no end yet waits for the rest, and so does a
     character whose bytes are not all here. `mark`: what stands before each line, where several workers write. */
  add(source, hex, mark) {
    const one = this.sources.get(source) ?? { rest: "", decoder: new TextDecoder() };
    const lines = (one.rest + one.decoder.decode(fromHex(hex), { stream: true })).split(/\r?\n/);
    this.sources.set(source, { ...one, rest: lines.pop(), mark });
    this.append(lines, mark);
  }

  /* Shows what is left without an end of line: the log is over, or all of it that was asked for is here. */
  flush() {
    for (const one of this.sources.values()) {
      if (one.rest.trim() !== "") {
        this.append([one.rest], one.mark);
      }
      one.rest = "";
    }
  }

  note(text) {
    const line = h("div", { class: "log-note" }, text);
    this.block = null;
    this.element.append(line);
    this.toEnd();
  }

  append(lines, mark) {
    for (const line of lines) {
      if (!this.block || this.inBlock === BLOCK_LINES) {
        this.block = h("pre", { class: "log-block" });
        this.inBlock = 0;
        this.element.append(this.block);
      }
      if (mark) {
        this.block.append(h("span", { class: "log-mark" }, `${mark} `));
      }
      this.block.append(...lineNodes(line), "\n");
      this.inBlock++;
      this.count++;
    }
    while (this.count > LINES_MAX && this.element.children.length > 1) {
      this.element.firstChild.remove();
      this.count -= BLOCK_LINES;
    }
    this.toEnd();
  }

  toEnd() {
    if (this.follows && !this.waits) {
      this.waits = true;
      requestAnimationFrame(() => {
        this.waits = false;
        this.element.scrollTop = this.element.scrollHeight;
      });
    }
  }
}

/* A text of a log as nodes, its lines folded and coloured. */
export function logText(text) {
  return text.split(/\r?\n/).flatMap((line) => [...lineNodes(line), "\n"]);
}

function lineNodes(line) {
  return parts(line).map(({ text, look }) => (look ? h("span", { class: look }, text) : text));
}

function fromHex(hex) {
  const bytes = new Uint8Array(hex.length >> 1);
  for (let i = 0; i < bytes.length; i++) {
    bytes[i] = parseInt(hex.slice(2 * i, 2 * i + 2), 16);
  }
  return bytes;
}
