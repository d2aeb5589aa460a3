/* Submitting a configuration: a file that is dropped anywhere on the page, or chosen; it is shown before it is sent. */

import { send, session } from "./api.js";
import { ask, notice } from "./dialog.js";
import { h } from "./dom.js";
import { bytes } from "./format.js";
import { go } from "./router.js";

const BYTES_MAX = 1 << 20;

export function submitBox() {
  const input = h("input", { type: "file", accept: ".yaml,.yml,.json", hidden: true, "aria-label": "Configuration file",
    onchange: () => take(input.files[0]).finally(() => (input.value = "")) });
  const button = h("button", { type: "button", class: "primary", disabled: session.readOnly,
    title: session.readOnly ? "This session may only read." : "Or drop a file anywhere on this page",
      onclick: () => input.click() }, "Submit a configuration…");
  const sheet = h("div", { class: "drop", hidden: true, "aria-hidden": "true" },
    h("p", {}, "Drop the configuration to submit it"));
  document.body.append(input, sheet);
  let depth = 0;
  const hasFiles = (event) => !session.readOnly && [...(event.dataTransfer?.types ?? [])].includes("Files");
  const handlers = {
    dragenter: (event) => hasFiles(event) && (depth++, (sheet.hidden = false)),
    dragleave: (event) => hasFiles(event) && (--depth <= 0) && (sheet.hidden = true),
    dragover: (event) => hasFiles(event) && event.preventDefault(),
    drop: (event) => {
      if (hasFiles(event)) {
        event.preventDefault();
        depth = 0;
        sheet.hidden = true;
        take(event.dataTransfer.files[0]);
      }
    },
  };
  for (const [type, handler] of Object.entries(handlers)) {
    document.addEventListener(type, handler);
  }
  return {
    button,
    close() {
      for (const [type, handler] of Object.entries(handlers)) {
        document.removeEventListener(type, handler);
      }
      input.remove();
      sheet.remove();
    },
  };
}

async function take(file) {
  if (!file) {
    return;
  }
  if (file.size > BYTES_MAX) {
    notice(`${file.name} has ${bytes(file.size)}; a configuration has 1 MiB at most.`, true);
    return;
  }
  const text = await file.text();
  const answer = await ask({ title: `Submit ${file.name}?`, confirm: "Submit",
    text: "The experiment gets this configuration and no files beside it: what its entrypoint needs has to be on the "
      + "nodes. The command shoal submit sends a directory with it.", preview: text });
  if (answer === null) {
    return;
  }
  try {
    const { experiment } = await send("POST", "/experiments", { config: text });
    notice("The experiment is submitted.");
    go(["experiments", experiment]);
  } catch (problem) {
    notice(problem.message, true);
  }
}
