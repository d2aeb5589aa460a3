/* A button that opens a list of further buttons or ticks; it closes by a click elsewhere and by Escape. */

import { fill, h } from "./dom.js";

export function menu(title, ...items) {
  return h("details", { class: "menu" }, h("summary", { class: "button small" }, title),
    h("div", { class: "menu-list" }, items));
}

/* Puts other buttons in the place of those that are there; a menu among these stays open, and keeps the keyboard. */
export function fillButtons(place, buttons) {
  const wasOpen = place.querySelector("details.menu[open]") !== null;
  const hadFocus = place.contains(document.activeElement);
  fill(place, buttons);
  const list = place.querySelector("details.menu");
  if (list && wasOpen) {
    list.open = true;
  }
  if (hadFocus) {
    (wasOpen && list ? list.querySelector("summary") : place.querySelector("button, summary"))?.focus();
  }
}

function closeAll(but) {
  for (const open of document.querySelectorAll("details.menu[open]")) {
    if (!open.contains(but)) {
      open.open = false;
    }
  }
}

document.addEventListener("click", (event) => {
  const inList = event.target.closest?.("details.menu button:not(.toggle), details.menu a");
  closeAll(inList ? null : event.target);
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    const open = document.activeElement?.closest("details.menu[open]");
    closeAll(null);
    open?.querySelector("summary").focus();
  }
});
