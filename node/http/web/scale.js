/* Axes: from values to pixels and back, linear or logarithmic, with round ticks. Pure. */

import { number } from "./format.js";

/* A scale from [low, high] to [from, to] pixels. A logarithmic one wants positive values; without any it is linear. */
export function makeScale(low, high, from, to, isLog = false) {
  const log = isLog && low > 0;
  const f = log ? Math.log10 : (x) => x;
  let a = f(low);
  let b = f(high);
  if (!(b > a)) {
    const room = log ? 0.5 : Math.abs(a) * 0.05 || 1;
    a -= room;
    b += room;
  }
  const factor = (to - from) / (b - a);
  const back = log ? (y) => 10 ** y : (y) => y;
  return {
    log, low: back(a), high: back(b), from, to,
    at: (value) => from + (f(value) - a) * factor,
    value: (pixel) => back(a + (pixel - from) / factor),
    ticks: (count) => (log ? logTicks(a, b, count) : linearTicks(a, b, count)),
  };
}

export function linearTicks(low, high, count) {
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((m) => m * power >= rough * 0.999) ?? 10);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) {
    const value = Number((i * step).toPrecision(12));
    ticks.push({ value, text: number(value) });
  }
  return ticks;
}

function logTicks(low, high, count) {
  if (high - low < 1) {
    return linearTicks(10 ** low, 10 ** high, count);
  }
  const every = Math.max(1, Math.ceil((high - low) / Math.max(1, count)));
  const ticks = [];
  for (let power = Math.ceil(low - 1e-9); power <= high + 1e-9; power++) {
    if (power % every === 0) {
      ticks.push({ value: 10 ** power, text: number(10 ** power) });
    }
  }
  return ticks;
}

/* The least and the greatest finite value of many, widened by a margin; null if there is none. */
export function extent(lists, { positive = false, margin = 0 } = {}) {
  let low = Infinity;
  let high = -Infinity;
  for (const values of lists) {
    for (const value of values) {
      if (Number.isFinite(value) && (!positive || value > 0)) {
        low = value < low ? value : low;
        high = value > high ? value : high;
      }
    }
  }
  if (low > high) {
    return null;
  }
  const room = (high - low) * margin;
  return positive ? [low, high] : [low - room, high + room];
}
