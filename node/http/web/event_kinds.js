/* What an event line is about, by its words: nodes that come and go, coordinators, trials, slots. Pure. */

const KINDS = [
  ["coordinator", /^coordinates .* with term \d+|^another node coordinates|has replaced the claim|^hands .* over/],
  ["node", / is (alive|suspect|dead|left|evicted|quarantined|on the roster)|^(un)?drained|is out$|^THIS NODE| died /],
  ["slot", /^slot \d|^the lease of slot/],
  ["trial", / trial \d+| did not survive|^trial \d+/],
];

const BAD = / is (dead|suspect|evicted|quarantined)| died | not survive|: (failed|lost)\b|: no coord|^THIS NODE|is out$/;
const GOOD = / is alive$|: completed,|is returned|quarantined no more/;

/* One of "coordinator", "node", "slot", "trial" and "other". */
export function kindOf(text) {
  return KINDS.find(([, words]) => words.test(text))?.[0] ?? "other";
}

/* A coordinator's first term is a begin; every later one is a take-over. */
export function isTakeOver(text) {
  const term = /^coordinates .* with term (\d+)$/.exec(text);
  return term ? Number(term[1]) > 1 : /^another node coordinates|has replaced the claim|^hands .* over/.test(text);
}

/* The shape that stands before the line. */
export function shapeOf(text) {
  return BAD.test(text) ? "failed" : isTakeOver(text) ? "up" : GOOD.test(text) ? "completed" : "dot";
}
