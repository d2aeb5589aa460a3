/* Numbers, times and sizes as people read them. */

/* A number of a document: JSON has no NaN and no infinity, so the node sends these as texts. Null for anything else. */
export function toNumber(value) {
  if (typeof value === "number") {
    return value;
  }
  return value === "NaN" ? NaN : value === "Infinity" ? Infinity : value === "-Infinity" ? -Infinity : null;
}

/* A value with at most five significant digits; "–" where there is none yet. */
export function number(value) {
  const x = toNumber(value);
  if (x === null) {
    return value === null || value === undefined ? "–" : String(value);
  }
  if (!Number.isFinite(x) || x === 0) {
    return Number.isNaN(x) ? "NaN" : x === 0 ? "0" : x > 0 ? "∞" : "−∞";
  }
  const size = Math.abs(x);
  if (size >= 1e6 || size < 1e-4) {
    return minus(x.toExponential(3).replace(/\.?0+e/, "e").replace("e+", "e"));
  }
  if (Number.isInteger(x)) {
    return whole(x);
  }
  return minus(String(Number(x.toPrecision(5))));
}

function minus(text) {
  return text.replace("-", "−");
}

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export function whole(value) {
  return value === null || value === undefined ? "–" : minus(WHOLE.format(value));
}

/* A hyperparameter: a number, a text, a truth value, a list or a map. */
export function parameter(value) {
  if (value === null || value === undefined) {
    return "–";
  }
  if (typeof value === "object") {
    return JSON.stringify(value);
  }
  return typeof value === "number" ? number(value) : String(value);
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(value) {
  if (value === null || value === undefined) {
    return "–";
  }
  let unit = 0;
  let rest = value;
  while (rest >= 1024 && unit < UNITS.length - 1) {
    rest /= 1024;
    unit++;
  }
  return `${unit === 0 || rest >= 100 ? Math.round(rest) : rest.toFixed(1)} ${UNITS[unit]}`;
}

/* A span of time with its two largest units. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) {
    return "–";
  }
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) {
    return `${s} s`;
  }
  if (s < 3600) {
    return `${Math.floor(s / 60)} min ${s % 60} s`;
  }
  if (s < 86400) {
    return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  }
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

export function ago(second) {
  const passed = Date.now() / 1000 - second;
  return passed < 5 ? "now" : passed < 60 ? `${Math.round(passed)} s ago` : passed < 3600
    ? `${Math.floor(passed / 60)} min ago`
    : passed < 86400 ? `${Math.floor(passed / 3600)} h ago` : `${Math.floor(passed / 86400)} d ago`;
}

const FULL = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "long" });
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

/* A time of day in the user's zone, with the zone. */
export function fullTime(ms) {
  return FULL.format(new Date(ms));
}

export function clock(ms) {
  const date = new Date(ms);
  const today = new Date().toDateString() === date.toDateString();
  return today ? CLOCK.format(date) : `${DAY.format(date)} ${CLOCK.format(date)}`;
}

export function plural(count, one, many = `${one}s`) {
  return `${whole(count)} ${count === 1 ? one : many}`;
}
