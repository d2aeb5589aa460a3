/* A slot as a tile: kind, state, the trial that has it, and what this uses. */

import { path, send } from "./api.js";
import { actionButton } from "./dialog.js";
import { fill, h, setText } from "./dom.js";
import { bytes } from "./format.js";
import { link } from "./router.js";
import { stateBadge } from "./state.js";

/* `changed()` is called after a button did something. */
export function makeTile(key, changed) {
  const head = h("div", { class: "tile-head" });
  const body = h("div", { class: "tile-body" });
  const meters = { cpu: meter("CPU"), memory: meter("Memory"), gpu: meter("GPU"), gpuMemory: meter("GPU memory") };
  const use = h("div", { class: "meters" }, Object.values(meters).map((one) => one.element));
  const foot = h("div", { class: "tile-foot" });
  const element = h("div", { class: "tile" }, head, body, use, foot);
  let text = "";
  let slot = null;
  return {
    key, element,
    update(next) {
      slot = next;
      const now = JSON.stringify(slot);
      if (now === text) {
        return;
      }
      text = now;
      element.className = `tile tile-${slot.state}${slot.node_state === "alive" ? "" : " tile-unsure"}`;
      fill(head, h("strong", {}, `${slot.kind ?? "slot"} ${slot.index}`), stateBadge(slot.state));
      fill(body, slot.experiment ? h("a", { href: link(["experiments", slot.experiment, "trials", slot.trial]) },
        `${slot.experiment.slice(0, 4)}/${slot.trial}`) : h("span", { class: "quiet" }, slot.model || "no work"),
      slot.experiment && slot.attempt > 1 && h("span", { class: "quiet" }, ` attempt ${slot.attempt}`));
      fill(foot, slot.node_state === "alive" && ownerButton(slot, changed));
    },
    setUsage(usage) {
      const one = slot?.experiment ? usage ?? {} : {};
      meters.cpu.set(one.cpu_percent, 100, one.cpu_percent != null ? `${Math.round(one.cpu_percent)} %` : null);
      meters.memory.set(one.memory_bytes, null, one.memory_bytes != null ? bytes(one.memory_bytes) : null);
      meters.gpu.set(one.gpu_percent, 100, one.gpu_percent != null ? `${Math.round(one.gpu_percent)} %` : null);
      meters.gpuMemory.set(one.gpu_memory_bytes, slot?.memory_bytes, one.gpu_memory_bytes != null
        ? bytes(one.gpu_memory_bytes) : null);
    },
  };
}

/* The owner of a slot takes it back, or gives it to the mesh again. */
function ownerButton(slot, after) {
  const act = (title, done, action, question) => actionButton(title, async () => {
    await send("POST", `/nodes${path(slot.node)}/${action}`, { slots: [slot.index] });
    return done;
  }, { after, question });
  if (slot.state === "withheld") {
    return act("Return", `Slot ${slot.index} is back.`, "return", null);
  }
  return act("Withhold", `Slot ${slot.index} is withheld.`, "withhold", slot.experiment
    ? { title: `Withhold slot ${slot.index}?`,
    text: "The work in it saves a checkpoint and goes on elsewhere.", confirm: "Withhold" } : null);
}

/* A bar with its value in words; nothing while the value is not known, and no bar where the whole is not. */
function meter(title) {
  const fillBar = h("span", { class: "meter-fill" });
  const bar = h("span", { class: "meter-bar", "aria-hidden": "true" }, fillBar);
  const text = h("span", { class: "count" });
  const element = h("div", { class: "meter", hidden: true }, h("span", { class: "quiet" }, title), bar, text);
  return {
    element,
    set(value, most, words) {
      element.hidden = words === null;
      setText(text, words ?? "");
      bar.classList.toggle("unseen", !most);
      fillBar.style.width = most ? `${Math.min(100, (100 * value) / most)}%` : "0";
    },
  };
}
