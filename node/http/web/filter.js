/* The filter of a table: words separated by blanks, all of which a row has to match. A word is looked for in the row's
   text; `name<value` (also <=, >, >=, =, !=) compares a column's value, `name:text` looks for a text in one column, and a
   minus before a word turns it round. Pure. */

const COMPARISON = /^(.+?)(<=|>=|!=|<|>|=|:)(.*)$/;

const COMPARE = {
  "<": (a, b) => a < b,
  "<=": (a, b) => a <= b,
  ">": (a, b) => a > b,
  ">=": (a, b) => a >= b,
};

/* A function of a row; null if the text is empty. `find(name)` gives a function from row to value, or null if there is no
   such column; `textOf(row)` gives the row's text in lower case. */
export function compile(text, find, textOf) {
  const terms = text.trim().split(/\s+/).filter(Boolean).map((word) => term(word, find, textOf));
  return terms.length === 0 ? null : (row) => terms.every((matches) => matches(row));
}

function term(word, find, textOf) {
  if (word.length > 1 && word.startsWith("-")) {
    const matches = term(word.slice(1), find, textOf);
    return (row) => !matches(row);
  }
  const parts = COMPARISON.exec(word);
  const column = parts && find(parts[1]);
  if (!column) {
    const wanted = word.toLowerCase();
    return (row) => textOf(row).includes(wanted);
  }
  return comparison(column, parts[2], parts[3]);
}

function comparison(column, operator, wanted) {
  const lower = wanted.toLowerCase();
  const limit = wanted === "" ? NaN : Number(wanted);
  const same = (value) => String(value).toLowerCase() === lower || (typeof value === "number" && value === limit);
  if (operator === ":") {
    return (row) => String(column(row) ?? "").toLowerCase().includes(lower);
  }
  if (operator === "=" || operator === "!=") {
    return (row) => same(column(row)) === (operator === "=");
  }
  return (row) => {
    const value = column(row);
    return typeof value === "number" && COMPARE[operator](value, limit);
  };
}

const NODE_NAMES = ["metric", "step", "index", "trial"];

/* The comparisons of a filter as the node takes them: "lr<0.01 net=small" is "hp.lr<0.01 and hp.net=small". */
export function conditions(text) {
  const words = text.replace(/\s*(<=|>=|!=|<|>|=)\s*/g, "$1").trim().split(/\s+/);
  return words.filter((word) => word && word.toLowerCase() !== "and").map((word) => {
    const name = /^[^<>=!]*/.exec(word)[0];
    return name.startsWith("hp.") || NODE_NAMES.includes(name) || name === "" ? word : `hp.${word}`;
  }).join(" and ");
}

/* Order of two values: numbers by size, texts by alphabet, NaN and what is not known last, whichever way the table is
   sorted. */
export function order(a, b, descending) {
  const lackA = isLacking(a);
  const lackB = isLacking(b);
  if (lackA || lackB) {
    return lackA - lackB;
  }
  const turned = descending ? -1 : 1;
  if (typeof a === "number" && typeof b === "number") {
    return turned * (a - b);
  }
  return turned * String(a).localeCompare(String(b), "en", { numeric: true });
}

function isLacking(value) {
  return value === null || value === undefined || Number.isNaN(value);
}
