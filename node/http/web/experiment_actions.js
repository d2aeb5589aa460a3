/* What can be done with an experiment, as buttons: those that suit its state, and the rest behind "More". */

import { path, send, url } from "./api.js";
import { h } from "./dom.js";
import { actionButton } from "./dialog.js";
import { menu } from "./menu.js";
import { go } from "./router.js";
import { isOver } from "./state.js";

export function experimentActions(one, after) {
  const address = `/experiments${path(one.id)}`;
  const act = (title, done, action, body, options = {}) =>
    actionButton(title, async (answer) => {
      await send("POST", `${address}/${action}`, typeof body === "function" ? body(answer) : body);
      return done;
    }, { ...options, after });
  const over = isOver(one.state);
  const first = over ? [] : [
    one.state === "paused" ? act("Resume", "The experiment goes on.", "resume", {})
      : act("Pause", "Trials save a checkpoint and pause.", "pause", {}),
    act("Cancel", "The experiment is cancelled.", "cancel", {}, { danger: true, question: { title: `Cancel "${one.name}"?`,
      text: "Running trials end; a cancelled experiment cannot be resumed.", confirm: "Cancel it", danger: true } }),
  ];
  return [...first, over && archive(one, act),
    menu("More", changes(one, act), !over && archive(one, act), pin(one, act), exports(one, address),
      remove(one, address))];
}

function archive(one, act) {
  return one.archived ? act("Take from the archive", "The experiment is not archived any more.", "archive", { remove: true })
    : act("Archive", "The experiment is archived.", "archive", {}, { disabled: isOver(one.state) ? null
      : "Only an experiment that is over can be archived." });
}

function pin(one, act) {
  return one.pinned ? act("Unpin", "The experiment is not pinned any more.", "pin", { remove: true })
    : act("Pin", "The experiment is pinned: its checkpoints stay, and it cannot be deleted.", "pin", {});
}

function changes(one, act) {
  return [
    act("Describe…", "The description is changed.", "describe", ({ value }) => ({ value }),
      { question: { title: "Describe the experiment", confirm: "Save",
      fields: [{ name: "value", title: "Description", value: one.description ?? "", maxlength: 255 }] } }),
    act("Label…", "The label is set.", "label", ({ label, value }) => (value ? { label, value } : { label }),
      { question: { title: "Set a label", confirm: "Set",
      fields: [{ name: "label", title: "Name", required: true, maxlength: 63 },
        { name: "value", title: "Value", maxlength: 255, hint: "May be empty." }] } }),
    Object.keys(one.labels ?? {}).length > 0 && act("Remove a label…", "The label is removed.", "label",
      ({ label }) => ({ label, remove: true }), {
      question: { title: "Remove a label", text: `Labels: ${Object.keys(one.labels).join(", ")}`, confirm: "Remove",
        fields: [{ name: "label", title: "Name", required: true }] } }),
    act("Priority…", "The priority is changed.", "priority", ({ priority }) => ({ priority: Number(priority) }), {
      disabled: isOver(one.state) ? "The experiment is over." : null, question: { title: "Priority", confirm: "Save",
        fields: [{ name: "priority", title: "From 1 to 99; lower numbers come first", type: "number", min: 1, max: 99,
          value: one.priority, required: true }] } }),
    act("Slots at most…", "The limit of slots is changed.", "max_slots", ({ slots }) => ({ max_slots: Number(slots) }), {
      disabled: isOver(one.state) ? "The experiment is over." : null,
        question: { title: "Slots that a trial may have at most", confirm: "Save",
        fields: [{ name: "slots", title: "Slots", type: "number", min: one.slots_per_trial ?? 1, max: 256,
          required: true }] } }),
    act("More trials…", "The experiment has more trials.", "max_trials", ({ trials }) => ({
      max_trials: Number(trials) }), {
      question: { title: "More trials", confirm: "Save", fields: [{ name: "trials",
        title: `All trials together, more than ${one.counts.total}`, type: "number",
        min: one.counts.total + 1, max: 100000, required: true }] } }),
  ];
}

/* Files for somebody without an account. */
function exports(one, address) {
  const file = one.name.replace(/[^\w.-]+/g, "_");
  return [["html", "Export as a page"], ["csv", "Export as a table (CSV)"], ["svg", "Export the curves (SVG)"]].map(
    ([as, title]) => h("a", { class: "button small", href: url(`${address}/export`, { as }), download: `${file}.${as}` },
      title));
}

function remove(one, address) {
  return actionButton("Delete", async () => {
    await send("DELETE", address);
    go(["experiments"]);
    return `"${one.name}" is deleted.`;
  }, { danger: true, disabled: one.pinned ? "The experiment is pinned." : null, question: { title: `Delete "${one.name}"?`,
    text: "Its points, logs, checkpoints and outputs go with it, on every node, for good.", confirm: "Delete it",
      danger: true } });
}
