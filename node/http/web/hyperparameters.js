/* Hyperparameters of many trials: nested maps become names with dots, and what differs is told from what is the same.
   Pure. */

export function flatten(values, prefix = "", out = {}) {
  for (const [key, value] of Object.entries(values ?? {})) {
    const name = prefix ? `${prefix}.${key}` : key;
    if (value !== null && typeof value === "object" && !Array.isArray(value)) {
      flatten(value, name, out);
    } else {
      out[name] = value;
    }
  }
  return out;
}

/* Returns { differing, same }: names in the order of their first appearance; `same` is a map of name to the common value. */
export function compare(list) {
  const seen = new Map();
  for (const values of list) {
    for (const [name, value] of Object.entries(values)) {
      const text = JSON.stringify(value);
      const one = seen.get(name);
      if (!one) {
        seen.set(name, { text, value, count: 1, differs: false });
      } else {
        one.count++;
        one.differs ||= one.text !== text;
      }
    }
  }
  const differing = [];
  const same = {};
  for (const [name, one] of seen) {
    if (one.differs || one.count < list.length) {
      differing.push(name);
    } else {
      same[name] = one.value;
    }
  }
  return { differing, same };
}

/* What an axis of a chart needs to know of many values: numbers (and whether these span more than two powers of ten, so
   that a logarithmic axis suits), or the different texts. */
export function kindOf(values) {
  const known = values.filter((value) => value !== null && value !== undefined);
  if (known.length > 0 && known.every((value) => typeof value === "number")) {
    const finite = known.filter(Number.isFinite);
    const low = finite.reduce((least, value) => Math.min(least, value), Infinity);
    const high = finite.reduce((most, value) => Math.max(most, value), -Infinity);
    return { numeric: true, log: low > 0 && high / low >= 50, low, high };
  }
  const texts = [...new Set(known.map((value) => (typeof value === "string" ? value : JSON.stringify(value))))];
  return { numeric: false, texts: texts.sort((a, b) => a.localeCompare(b, "en", { numeric: true })) };
}
