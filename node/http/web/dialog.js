/* Questions before something is done, and sentences after it. */

import { h } from "./dom.js";
import { session } from "./api.js";

const NOTICE_MS = 8000;

/* Asks in a modal dialog. `fields`: [{ name, title, value?, type?, hint?, min?, max?, maxlength?, required? }];
   `preview`: text to look at before. Resolves to a map of the
   fields' values, or to null if the user thinks better of it. */
export function ask({ title, text = null, preview = null, fields = [], confirm, danger = false }) {
  return new Promise((resolve) => {
    const inputs = fields.map((field) => ({ field, input: inputOf(field) }));
    const dialog = h("dialog", { "aria-labelledby": "dialog-title" },
      h("form", { onsubmit: (event) => {
        event.preventDefault();
        dialog.close("yes");
      } },
        h("h2", { id: "dialog-title" }, title),
        text && h("p", {}, text),
        preview && h("pre", { class: "code preview", tabindex: "0", role: "region", "aria-label": "The text of the file" },
          preview),
        inputs.map(({ field, input }) => h("label", { class: "field" }, h("span", {}, field.title), input,
          field.hint && h("small", { class: "quiet" }, field.hint))),
        h("div", { class: "buttons" },
          h("button", { type: "button", onclick: () => dialog.close("") }, "Back"),
          h("button", { type: "submit", class: danger ? "danger" : "primary" }, confirm))));
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes" ? Object.fromEntries(inputs.map(({ field, input }) => [field.name, input.value]))
        : null);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

function inputOf(field) {
  return h("input", { type: field.type ?? "text", value: field.value ?? "", min: field.min, max: field.max,
    maxlength: field.maxlength,
    required: field.required, autocomplete: "off" });
}

/* A sentence at the edge of the page. Errors stay until they are closed. */
export function notice(text, isError = false) {
  const element = h("div", { class: isError ? "notice notice-error" : "notice" }, h("span", {}, text),
    h("button", { type: "button", class: "small", onclick: () => element.remove() }, "Close"));
  document.getElementById("notices").append(element);
  if (!isError) {
    setTimeout(() => element.remove(), NOTICE_MS);
  }
}

/* A button that changes something. `question` (as for `ask`) comes first where there is one; its answer is handed to
   `act`, which returns the sentence to show. A session that may only read gets a button that cannot be pressed and says
   why. */
export function actionButton(title, act, { question = null, danger = false, small = true, disabled = null,
  after = () => {} } = {}) {
  const why = session.readOnly ? "This session may only read." : disabled;
  const button = h("button", { type: "button", class: [small && "small", danger && "danger"].filter(Boolean).join(" ")
    || null,
    title: why, disabled: Boolean(why), onclick: () => perform(button, act, question, after) }, title);
  return button;
}

async function perform(button, act, question, after) {
  const answer = question ? await ask(typeof question === "function" ? question() : question) : {};
  if (answer === null) {
    return;
  }
  button.disabled = true;
  try {
    const sentence = await act(answer);
    if (sentence) {
      notice(sentence);
    }
  } catch (problem) {
    notice(problem.message, true);
  }
  button.disabled = false;
  after();
}
