/* What an attempt of a trial ran on: versions, machine, packages. */

import { get, path } from "./api.js";
import { fill, h } from "./dom.js";
import { plainTable } from "./table.js";

const NAMES = ["shoal", "system", "model", "driver", "python", "executable"];

export function platformPart({ id, index }) {
  const place = h("div", {}, h("p", { class: "quiet" }, "Loading."));
  load(`/experiments${path(id)}/trials${path(index)}/platform`).then((platform) => draw(place, platform),
    (problem) => fill(place, h("p", { class: "note" }, problem.message)));
  return { element: place };
}

/* A map of texts; nothing if no node tells. */
async function load(address) {
  return (await get(address)).platform ?? {};
}

function draw(place, platform) {
  const rows = NAMES.filter((key) => platform[key]).map((key) => [key, platform[key]]);
  const packages = (platform.packages ?? "").split("\n").filter(Boolean).map((line) => line.split("=="));
  fill(place, rows.length === 0 && h("p", { class: "quiet" }, "No node tells what this trial ran on."),
    rows.length > 0 && plainTable("Platform", ["What", "Value"], rows),
    packages.length > 0 && h("h2", {}, `Packages of Python (${packages.length})`),
    packages.length > 0 && plainTable("Packages of Python", ["Package", "Version"],
      packages.map(([one, version]) => [one, version ?? "–"])));
}
