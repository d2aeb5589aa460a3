/* The parts of a page: links, of which one is open, kept in the address as `view`. A part is made when it is first
   opened. */

import { fill, h } from "./dom.js";
import { here, link, setQuery } from "./router.js";

/* `parts`: [{ id, title, make() }], where `make` gives { element, update?, close? }; the first is open without a word in
   the address. */
export class Tabs {
  constructor(parts, query) {
    this.parts = parts;
    this.made = new Map();
    this.nav = h("nav", { class: "tabs", "aria-label": "Parts of this page" });
    this.place = h("div", { class: "tab-place" });
    this.element = h("div", {}, this.nav, this.place);
    this.show(query.get("view") ?? parts[0].id);
  }

  show(id) {
    const part = this.parts.find((one) => one.id === id) ?? this.parts[0];
    this.current?.hide?.();
    const { parts, query } = here();
    fill(this.nav, this.parts.map((one) => h("a", { href: link(parts, { ...Object.fromEntries(query),
      view: one === this.parts[0] ? null : one.id }),
      "aria-current": one === part ? "true" : null, onclick: (event) => this.click(event, one.id) }, one.title)));
    if (!this.made.has(part.id)) {
      this.made.set(part.id, part.make());
    }
    this.current = this.made.get(part.id);
    fill(this.place, this.current.element);
    this.current.shown?.();
    if (this.news !== undefined) {
      this.current.update?.(this.news);
    }
  }

  /* A plain click stays on the page; with a modifier the link opens elsewhere, as links do. */
  click(event, id) {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) {
      return;
    }
    event.preventDefault();
    setQuery({ view: id === this.parts[0].id ? null : id });
    this.show(id);
    this.nav.querySelector("[aria-current]")?.focus();
  }

  /* Only the part that is open is kept up to date; another gets the news when it is opened. */
  update(news) {
    this.news = news;
    this.current.update?.(news);
  }

  close() {
    for (const part of this.made.values()) {
      part.close?.();
    }
  }
}
