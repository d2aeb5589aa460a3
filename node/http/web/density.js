/* Many lines as one picture: each pixel holds how many lines cross it and their mean rank, from which its colour follows. A
   canvas strokes ten thousand lines in seconds; a pass over arrays takes a tenth of a second, and the order of the lines
   does not matter. Lines go in as columns: a point for each axis. */

import { channels } from "./canvas.js";

const TABLE_STEPS = 16; /* of opacity, for each line that crosses a pixel */
const TABLE_LINES = 64;

export class Density {
  /* `width` and `height` in pixels of the screen. */
  constructor(width, height) {
    Object.assign(this, { width, height });
    this.cells = new Float32Array(2 * width * height); /* of each pixel: lines, sum of their ranks */
  }

  /* A line through the points (x[i], y[i]); NaN in `y` leaves a gap. `x` rises; `rank` is from 0 to 1. */
  add(x, y, rank) {
    for (let i = 1; i < x.length; i++) {
      if (y[i - 1] === y[i - 1] && y[i] === y[i]) {
        this.segment(x[i - 1], y[i - 1], x[i], y[i], rank);
      }
    }
  }

  /* Along the longer side a step is one pixel, shared by the two pixels beside the line (after Wu). */
  segment(x0, y0, x1, y1, rank) {
    if (x1 - x0 >= Math.abs(y1 - y0)) {
      const slope = (y1 - y0) / (x1 - x0 || 1);
      for (let x = Math.ceil(x0), end = Math.min(x1, this.width - 1); x < end; x++) {
        const y = y0 + slope * (x - x0);
        const row = Math.floor(y);
        this.touch(2 * (row * this.width + x), 2 * this.width, y - row, rank);
      }
      return;
    }
    const slope = (x1 - x0) / (y1 - y0);
    const low = Math.min(y0, y1);
    for (let y = Math.ceil(low), end = Math.min(Math.max(y0, y1), this.height - 1); y < end; y++) {
      const x = x0 + slope * (y - y0);
      const column = Math.floor(x);
      this.touch(2 * (y * this.width + column), 2, x - column, rank);
    }
  }

  touch(at, next, part, rank) {
    const { cells } = this;
    cells[at] += 1 - part;
    cells[at + 1] += (1 - part) * rank;
    cells[at + next] += part;
    cells[at + next + 1] += part * rank;
  }

  /* Paints the picture; one line has this opacity, and ranks go from the colour `low` to `high` (both #rrggbb). */
  paint(context, low, high, opacity) {
    const { cells, width, height } = this;
    const image = context.createImageData(width, height);
    const pixels = image.data;
    const from = channels(low);
    const span = channels(high).map((value, i) => value - from[i]);
    const table = Uint8ClampedArray.from({ length: TABLE_STEPS * TABLE_LINES + 1 },
      (_, i) => 255 * (1 - (1 - opacity) ** (i / TABLE_STEPS)));
    for (let at = 0, pixel = 0; at < cells.length; at += 2, pixel += 4) {
      const lines = cells[at];
      if (lines > 0) {
        const rank = cells[at + 1] / lines;
        pixels[pixel] = from[0] + span[0] * rank;
        pixels[pixel + 1] = from[1] + span[1] * rank;
        pixels[pixel + 2] = from[2] + span[2] * rank;
        pixels[pixel + 3] = table[Math.min(table.length - 1, Math.round(lines * TABLE_STEPS))];
      }
    }
    context.putImageData(image, 0, 0);
  }
}
