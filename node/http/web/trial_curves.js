/* Curves of one metric for several trials: points are asked for when a trial has made steps, a few trials at a time, and
   finer ones when the user zooms. */

import * as banner from "./banner.js";
import { assignPlaces } from "./canvas.js";
import { POINTS, loadShared, pointsFor } from "./metrics.js";

const AGAIN_MS = 1000;
const AT_ONCE = 3;

export class TrialCurves {
  /* `panel`: a CurvePanel; `metric()`: the name of the metric; `places`: looks by key, where several charts share these. */
  constructor(panel, metric, places = new Map()) {
    Object.assign(this, { panel, metric, places });
    this.trials = [];
    this.have = new Map();
    this.points = POINTS;
    this.closed = false;
  }

  /* `trials`: [{ key, experiment, trial, title, href, version }]; a new version means that there may be new points. */
  setTrials(trials) {
    this.trials = trials;
    assignPlaces(this.places, trials.map((one) => one.key));
    this.draw();
    this.load();
  }

  /* The whole curve has so many points; a part of it gets as many, by asking for more in all. */
  zoom(range) {
    const points = pointsFor(range, this.panel.curves.range());
    if (points > this.points) {
      this.points = points;
      this.load();
    }
  }

  async load() {
    if (this.busy) {
      this.wanted = true;
      return;
    }
    this.busy = true;
    do {
      this.wanted = false;
      const stale = this.trials.filter((one) => this.have.get(one.key)?.version !== `${one.version} ${this.points}`);
      for (let i = 0; i < stale.length && !this.closed; i += AT_ONCE) {
        await Promise.all(stale.slice(i, i + AT_ONCE).map((one) => this.loadOne(one)));
      }
      this.draw();
      if (this.wanted) {
        await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
      }
    } while (this.wanted && !this.closed);
    this.busy = false;
  }

  async loadOne(one) {
    const version = `${one.version} ${this.points}`;
    try {
      const { series, unreachable } = await loadShared(one.experiment, one.trial, this.points, one.version);
      this.have.set(one.key, { version, series });
      banner.missingPoints(unreachable);
    } catch (problem) {
      banner.report("points", problem, () => this.load());
    }
  }

  draw() {
    const metric = this.metric();
    const runs = this.trials.flatMap((one) => {
      const series = seriesFor(this.have.get(one.key)?.series, metric);
      return series ? [{ key: one.key, title: one.title, href: one.href, series, place: this.places.get(one.key) }] : [];
    });
    this.panel.setRuns(runs);
  }

  close() {
    this.closed = true;
  }
}

/* Of the group `validation`, else of the first that has the metric; a name with a slash names its group. */
function seriesFor(series, metric) {
  if (!series || !metric) {
    return null;
  }
  return series.get(metric) ?? series.get(`validation/${metric}`) ?? [...series.values()].find((one) => one.name === metric)
    ?? null;
}
