/* The configuration of an experiment: what holds now, with the defaults, and the file as it was submitted. */

import { get, getText, path, url } from "./api.js";
import { fill, h } from "./dom.js";

export function configurationPart({ id }) {
  const address = `/experiments${path(id)}`;
  const place = h("div", {}, h("p", { class: "quiet" }, "Loading."));
  const code = (text, label) => h("pre", { class: "code", tabindex: "0", role: "region", "aria-label": label }, text);
  const missing = (problem) => h("p", { class: "note" }, problem.message);
  (async () => {
    const [config, file] = await Promise.allSettled([get(`${address}/config`), getText(`${address}/configuration`)]);
    const changed = Object.entries(config.value?.changed ?? {});
    fill(place,
      h("section", { class: "panel" }, h("div", { class: "panel-head" }, h("h2", {}, "The file as it was submitted"),
        h("span", { class: "tools" },
        h("a", { class: "button small", href: url(`${address}/configuration`), download: `${id}.yaml` }, "Download"),
        h("a", { class: "button small", href: url(`${address}/code`), download: `${id}.tar` }, "Download the code"))),
      file.status === "fulfilled" ? code(file.value, "The file as it was submitted") : missing(file.reason)),
      h("section", { class: "panel" }, h("div", { class: "panel-head" }, h("h2", {}, "What holds now, with the defaults")),
        changed.length > 0 && h("p", { class: "note" }, `Changed since: ${changed.map(
          ([key, value]) => `${key} was ${value}`).join(", ")}.`),
        config.status === "fulfilled" ? code(yaml(config.value.config), "What holds now") : missing(config.reason)));
  })();
  return { element: place };
}

/* A document as the lines of a YAML file. */
export function yaml(value, indent = "") {
  if (value === null || typeof value !== "object") {
    return scalar(value);
  }
  const empty = Array.isArray(value) ? "[]" : "{}";
  const lines = Array.isArray(value) ? value.map((one) => item(`${indent}-`, one, indent))
    : Object.entries(value).map(([key, one]) => item(`${indent}${scalar(key)}:`, one, indent));
  return lines.length > 0 ? lines.join("\n") : empty;
}

function item(head, value, indent) {
  const isDeep = value !== null && typeof value === "object" && Object.keys(value).length > 0;
  return isDeep ? `${head}\n${yaml(value, `${indent}  `)}` : `${head} ${yaml(value)}`;
}

/* Plain where this cannot be taken for anything else. */
function scalar(value) {
  return typeof value === "string" && !/^[A-Za-z_][\w ./-]*$/.test(value) ? JSON.stringify(value) : String(value);
}
