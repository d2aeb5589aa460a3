/* Draws one run of a chart of curves: the band from the least to the greatest values, the line through the last ones, and
   crosses for values that have no place on the axis. */

/* `run`: { colour, dash, series, xs, from, to, emphasis }, of which the places `from` to `to` are drawn; emphasis 1: this
   run is pointed at, -1: another one is. `x` and `y` are scales, `floor` the lower edge of the picture. */
export function paintRun(context, colours, run, x, y, floor) {
  const { series, xs } = run;
  const show = (value) => Number.isFinite(value) && (!y.log || value > 0);
  context.strokeStyle = context.fillStyle = colours.series[run.colour];
  for (const [begin, end] of pieces(series.last, run.from, run.to, show)) {
    paintBand(context, run, x, y, begin, end);
    context.globalAlpha = run.emphasis < 0 ? 0.35 : 1;
    context.lineWidth = run.emphasis > 0 ? 2.5 : 1.5;
    context.lineJoin = "round";
    context.setLineDash(run.dash);
    context.beginPath();
    for (let i = begin; i < end; i++) {
      context.lineTo(x.at(xs[i]), y.at(series.last[i]));
    }
    context.stroke();
    context.setLineDash([]);
    if (end - begin === 1) {
      dot(context, x.at(xs[begin]), y.at(series.last[begin]), 2.5);
    }
  }
  context.globalAlpha = 1;
  paintLacking(context, run, x, floor);
}

/* The edge of the band is drawn, too: a spike of one point is too narrow to be seen by its filling. */
function paintBand(context, { series, xs, emphasis }, x, y, begin, end) {
  const low = y.log ? y.low : -Infinity;
  context.beginPath();
  for (let i = begin; i < end; i++) {
    context.lineTo(x.at(xs[i]), y.at(series.max[i]));
  }
  for (let i = end - 1; i >= begin; i--) {
    context.lineTo(x.at(xs[i]), y.at(Math.max(series.min[i], low)));
  }
  context.globalAlpha = emphasis < 0 ? 0.06 : 0.2;
  context.fill();
  context.globalAlpha = emphasis < 0 ? 0.1 : 0.4;
  context.lineWidth = 1;
  context.stroke();
}

/* A NaN or an infinite value is a cross on the floor of the picture. */
function paintLacking(context, { series, xs, from, to }, x, floor) {
  context.lineWidth = 1.5;
  context.beginPath();
  for (let i = from; i < to; i++) {
    if (!Number.isFinite(series.last[i])) {
      const at = x.at(xs[i]);
      context.moveTo(at - 3, floor - 7);
      context.lineTo(at + 3, floor - 1);
      context.moveTo(at + 3, floor - 7);
      context.lineTo(at - 3, floor - 1);
    }
  }
  context.stroke();
}

export function dot(context, x, y, radius) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fill();
}

/* Runs of neighbouring places whose values can be drawn. */
function* pieces(values, from, to, show) {
  let begin = -1;
  for (let i = from; i <= to; i++) {
    const good = i < to && show(values[i]);
    if (good && begin < 0) {
      begin = i;
    } else if (!good && begin >= 0) {
      yield [begin, i];
      begin = -1;
    }
  }
}
