/* What an event is about, by its kind (AREA.WHAT, docs/wire.md). Pure. */

const COORDINATOR = ["experiment.coordinated", "experiment.handed_over"];
const AREAS = { node: "node", slot: "slot", trial: "trial", worker: "trial" };

const BAD = ["node.suspect", "node.dead", "node.evicted", "node.quarantined", "node.false", "node.twin", "node.unreachable",
  "node.memory_full", "node.disk_full", "node.disk_failed", "node.disk_damaged", "slot.lost", "slot.expired", "trial.failed",
  "trial.lost", "worker.failed", "checkpoint.failed", "metrics.lost"];
const GOOD = ["node.alive", "node.trusted", "node.reachable", "node.disk_restored", "slot.returned", "trial.completed"];

/* One of "coordinator", "node", "slot", "trial" and "other". */
export function kindOf({ kind }) {
  return COORDINATOR.includes(kind) ? "coordinator" : AREAS[kind?.split(".")[0]] ?? "other";
}

/* A coordinator's first term is a begin; every later one is a take-over. */
export function isTakeOver({ kind, text }) {
  const term = kind === "experiment.coordinated" ? / with term (\d+)/.exec(text) : null;
  return term ? Number(term[1]) > 1 : kind === "experiment.handed_over";
}

/* The shape that stands before the line. */
export function shapeOf(event) {
  return BAD.includes(event.kind) ? "failed" : isTakeOver(event) ? "up" : GOOD.includes(event.kind) ? "completed" : "dot";
}
