/* Metric points of trials: asked of the node in sums (least, greatest and last value of each bucket), and sorted into one
   series for each metric of each group. */

import { get, path } from "./api.js";
import { toNumber } from "./format.js";

export const POINTS = 500;
const POINTS_MAX = 10000;

const SHARED_MAX = 64;

/* Answers that several charts of a page want: by trial, number of sums and `version` (what the trial was like when it was
   asked). */
const shared = new Map();

export function loadShared(experiment, trial, points, version) {
  const key = `${experiment}/${trial} ${points} ${version}`;
  if (!shared.has(key)) {
    const answer = loadMetrics(experiment, trial, points);
    shared.set(key, answer);
    answer.catch(() => shared.delete(key));
    if (shared.size > SHARED_MAX) {
      shared.delete(shared.keys().next().value);
    }
  }
  return shared.get(key);
}

/* So many sums in all that the part of a curve that is zoomed into gets as many as the whole curve had. */
export function pointsFor(range, all) {
  const share = range && all ? (all[1] - all[0]) / (range[1] - range[0]) : 1;
  return Math.min(POINTS_MAX, POINTS * 2 ** Math.ceil(Math.log2(Math.max(1, share))));
}

/* Returns { series: Map of "group/metric" to a series, unreachable: labels of nodes that are missing }. */
export async function loadMetrics(experiment, trial, points, signal) {
  const document = await get(`/experiments${path(experiment)}/trials${path(trial)}/metrics`, { points }, signal);
  return { series: seriesOf(document.points ?? []), unreachable: document.unreachable ?? [] };
}

/* As loadMetrics, of the profile of a trial: what its ranks used and where the time of their steps went. Of steps that were
   made anew all points count. */
export async function loadProfile(experiment, trial, points, signal) {
  const address = `/experiments${path(experiment)}/trials${path(trial)}/metrics`;
  const document = await get(address, { points, profile: true }, signal);
  return { series: seriesOf(document.points ?? [], true), unreachable: document.unreachable ?? [] };
}

/* A series: step, time, min, max, last (arrays, in the order of steps), count (of points), nan (of points that were NaN).
   Where a later attempt made steps anew, its points count, unless all are kept. */
function seriesOf(points, keepsAll = false) {
  const series = new Map();
  for (const point of points) {
    if (point.void) {
      continue;
    }
    for (const [name, value] of Object.entries(point.metrics)) {
      const key = `${point.group}/${name}`;
      if (!series.has(key)) {
        series.set(key, { key, group: point.group, name, step: [], time: [], min: [], max: [], last: [], count: 0, nan: 0,
          attempt: point.attempt });
      }
      add(series.get(key), point, value, keepsAll);
    }
  }
  return series;
}

function add(series, point, value, keepsAll) {
  const isSum = value !== null && typeof value === "object";
  const last = toNumber(isSum ? value.last : value);
  if (last === null) {
    return;
  }
  if (series.attempt !== point.attempt && !keepsAll) {
    series.attempt = point.attempt;
    const from = series.step.findIndex((step) => step >= (point.first_step ?? point.step));
    cut(series, from < 0 ? series.step.length : from);
  }
  series.step.push(point.step);
  series.time.push(point.wall_ms ?? NaN);
  series.last.push(last);
  series.min.push(isSum ? toNumber(value.min) ?? last : last);
  series.max.push(isSum ? toNumber(value.max) ?? last : last);
  series.count += isSum ? value.count : 1;
  series.nan += isSum ? value.nan ?? 0 : Number(Number.isNaN(last));
}

function cut(series, length) {
  for (const list of ["step", "time", "min", "max", "last"]) {
    series[list].length = length;
  }
}

/* The least, greatest and last value of a whole series. */
export function summary(series) {
  let low = Infinity;
  let high = -Infinity;
  for (let i = 0; i < series.last.length; i++) {
    low = series.min[i] < low ? series.min[i] : low;
    high = series.max[i] > high ? series.max[i] : high;
  }
  return { min: low <= high ? low : NaN, max: low <= high ? high : NaN, last: series.last.at(-1) ?? null,
    step: series.step.at(-1) ?? null };
}

/* The newest value of a metric in a trial's row: of the group `validation` if it is there, else of the first group that
   has it. */
export function latest(metrics, name) {
  if (!metrics) {
    return null;
  }
  const group = metrics.validation?.[name] !== undefined ? "validation" : Object.keys(metrics).find(
    (g) => metrics[g][name] !== undefined);
  return group === undefined ? null : toNumber(metrics[group][name]);
}

/* Keys of series in the order to show: the searcher's metric first, then by group and name. */
export function orderedKeys(keys, metric) {
  const rank = (key) => (key === `validation/${metric}` ? 0 : key.endsWith(`/${metric}`) ? 1 : 2);
  return [...keys].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b, "en", { numeric: true }));
}
