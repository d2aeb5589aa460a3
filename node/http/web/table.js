/* A table of many rows: sorted by a click on a column's head, filtered by words, in pages of a hundred. Rows keep their
   elements from one update to the next, and a cell is made anew only where its text has changed, so focus and selected
   text stay.

   A column: { id, title, value(row), text?(row), cell?(row), numeric?, minor?, hint?, remote? }. `value` is what is
   sorted and compared, `text` what is shown and searched (default: the value), `cell` makes an element where text alone
   does not do. Minor columns are left out on narrow screens. */

import { fill, h, icon, setText } from "./dom.js";
import { plural, whole } from "./format.js";
import { compile, conditions, order } from "./filter.js";
import { calm } from "./live.js";

const PAGE_ROWS = 100;
const FILTER_MS = 100;

export class Table {
  /* `keyOf(row)`: a text; `selection`: a Selection whose picked keys have a tick (may be left out); `onState(changes)`:
     told about the order, the filter and the page, to keep these in the address. */
  constructor({ label, columns, keyOf, selection = null, empty = "Nothing here yet.", onState = () => {},
    query = new URLSearchParams(),
    sort = null, filterable = true, filterHint = "" }) {
    Object.assign(this, { label, columns, keyOf, selection, empty, onState });
    this.rows = [];
    this.shown = [];
    this.found = null;
    this.remote = null;
    this.made = new Map();
    this.sort = query.get("sort") ?? sort?.id ?? null;
    this.descending = query.has("sort") ? query.get("down") === "1" : Boolean(sort?.descending);
    this.page = Math.max(0, Number(query.get("page") ?? 1) - 1) || 0;
    this.filterText = query.get("filter") ?? "";
    this.only = null;
    this.build(filterable, filterHint);
    selection?.addEventListener("change", () => this.mark());
  }

  build(filterable, hint) {
    this.count = h("span", { class: "quiet count" });
    this.input = h("input", { type: "search", placeholder: "Filter", "aria-label": `Filter: ${this.label}`,
      title: hint || null,
      value: this.filterText, oninput: calm(FILTER_MS, () => this.setFilter(this.input.value)) });
    this.tools = h("span", { class: "tools" });
    this.states = h("select", { "aria-label": `States: ${this.label}`, hidden: true, onchange: () => this.setStates() });
    this.where = h("input", { type: "search", placeholder: "lr<0.01 metric>0.9",
      "aria-label": `Conditions: ${this.label}`,
      title: "Comparisons of hyperparameters, metric, step and index, such as lr<0.01 net=small; Enter asks the node",
      hidden: true, onchange: () => this.setWhere() });
    this.head = h("tr");
    this.body = h("tbody");
    this.scroll = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": this.label },
      h("table", {}, h("caption", { class: "unseen" }, this.label), h("thead", {}, this.head), this.body));
    this.nothing = h("p", { class: "quiet empty", hidden: true });
    this.pager = h("div", { class: "pager", hidden: true });
    this.element = h("div", { class: "table" },
      h("div", { class: "toolbar" }, filterable && this.input, this.where, this.states, this.tools, this.count),
        this.scroll,
        this.nothing, this.pager);
    this.drawHead();
  }

  setColumns(columns) {
    const same = columns.length === this.columns.length && columns.every((c, i) => c.id === this.columns[i].id
      && c.title === this.columns[i].title);
    this.columns = columns;
    if (!same) {
      this.made.clear();
      this.drawHead();
    }
  }

  /* The node sorts, filters and cuts: the rows are one page of the `count` that have one of `states` (null: all do) and meet
     the conditions `where`, out of `total`; `ask({ from, limit, sort, descending, states, where })` asks for another page,
     and `choices` are the states to choose from. Null: all rows are here. */
  setRemote(remote) {
    this.remote = remote;
    this.input.hidden = Boolean(remote);
    this.states.hidden = this.where.hidden = !remote;
    if (remote && this.states.childElementCount === 0) {
      fill(this.states, h("option", { value: "" }, "All states"),
        remote.choices.map((one) => h("option", { value: one }, one)));
    }
    if (remote) {
      this.states.value = remote.states ?? "";
      if (document.activeElement !== this.where) {
        this.where.value = remote.where ?? "";
      }
    }
  }

  setStates() {
    this.page = 0;
    this.onState({ states: this.states.value || null, page: null });
    this.askRemote();
  }

  setWhere() {
    this.page = 0;
    this.where.value = conditions(this.where.value);
    this.onState({ where: this.where.value || null, page: null });
    this.askRemote();
  }

  setRows(rows) {
    this.rows = rows;
    this.found = null;
    this.draw();
  }

  setFilter(text) {
    this.filterText = text;
    this.found = null;
    this.page = 0;
    this.onState({ filter: text, page: null });
    this.draw();
  }

  /* Shows only rows with these keys (null: all), beside what the filter says. */
  restrict(keys) {
    this.only = keys;
    this.found = null;
    this.page = 0;
    this.draw();
  }

  askRemote() {
    const column = this.columns.find((one) => one.id === this.sort);
    this.remote.ask({ from: this.page * PAGE_ROWS, limit: PAGE_ROWS, sort: column?.remote ?? "index",
      descending: this.descending, ...(this.states.value && { states: this.states.value }),
      ...(this.where.value && { where: this.where.value }) });
  }

  sortBy(column) {
    if (this.remote && !column.remote) {
      return;
    }
    this.descending = this.sort === column.id ? !this.descending : Boolean(column.numeric);
    this.sort = column.id;
    this.found = null;
    this.page = 0;
    this.onState({ sort: this.sort, down: this.descending ? "1" : "0", page: null });
    this.drawHead();
    if (this.remote) {
      this.askRemote();
    } else {
      this.draw();
    }
    this.head.querySelector(`[data-column="${CSS.escape(column.id)}"]`)?.focus();
  }

  drawHead() {
    const cells = this.columns.map((column) => {
      const sorted = this.sort === column.id;
      return h("th", { scope: "col", class: classOf(column), "aria-sort": sorted
        ? (this.descending ? "descending" : "ascending") : null },
        h("button", { type: "button", "data-column": column.id, title: column.hint ?? null,
          onclick: () => this.sortBy(column) },
          h("bdi", {}, column.title), sorted && icon(this.descending ? "down" : "up")));
    });
    if (this.selection) {
      this.all = h("input", { type: "checkbox", "aria-label": "Pick all rows of this page",
        onchange: () => this.pickAll(this.all.checked) });
      cells.unshift(h("th", { scope: "col", class: "pick" }, h("label", { class: "target" }, this.all)));
    }
    fill(this.head, cells);
  }

  /* All rows that match, in order: kept as `found` until the rows, the filter or the order change. */
  matching() {
    const columns = new Map(this.columns.flatMap((c) => [[c.id.toLowerCase(), c], [c.title.toLowerCase(), c]]));
    const find = (name) => columns.get(name.toLowerCase())?.value ?? null;
    const text = (row) => this.columns.map((c) => textOf(c, row)).join(" ").toLowerCase();
    const matches = compile(this.filterText, find, text);
    let rows = this.only ? this.rows.filter((row) => this.only.has(this.keyOf(row))) : this.rows;
    rows = matches ? rows.filter(matches) : rows;
    const column = this.columns.find((c) => c.id === this.sort);
    if (!column) {
      return rows;
    }
    const keyed = rows.map((row, i) => ({ row, i, value: column.value(row) }));
    keyed.sort((a, b) => order(a.value, b.value, this.descending) || a.i - b.i);
    return keyed.map((k) => k.row);
  }

  draw() {
    this.found ??= this.remote ? this.rows : this.matching();
    const count = this.remote?.count ?? this.found.length;
    const pages = Math.max(1, Math.ceil(count / PAGE_ROWS));
    this.page = Math.min(this.page, pages - 1);
    this.shown = this.remote ? this.rows : this.found.slice(this.page * PAGE_ROWS, (this.page + 1) * PAGE_ROWS);
    const kept = new Map();
    for (const row of this.shown) {
      const key = this.keyOf(row);
      const line = this.made.get(key) ?? this.makeLine(key);
      this.updateLine(line, row);
      kept.set(key, line);
    }
    this.made = kept;
    fill(this.body, [...kept.values()].map((line) => line.element));
    const all = this.remote?.total ?? this.rows.length;
    setText(this.count, count === all ? plural(all, "row") : `${whole(count)} of ${plural(all, "row")}`);
    this.nothing.hidden = count > 0;
    this.scroll.hidden = count === 0;
    setText(this.nothing, this.rows.length === 0 && !this.remote?.states && !this.remote?.where ? this.empty
      : "No row matches the filter.");
    this.drawPager(pages, count);
    this.mark();
  }

  drawPager(pages, count) {
    this.pager.hidden = pages < 2;
    if (pages < 2) {
      return;
    }
    this.range ??= h("span", { class: "count" });
    this.earlier ??= h("button", { type: "button", onclick: () => this.turn(-1) }, "Earlier");
    this.later ??= h("button", { type: "button", onclick: () => this.turn(1) }, "Later");
    setText(this.range, `${whole(this.page * PAGE_ROWS + 1)} to ${whole(Math.min(count,
      (this.page + 1) * PAGE_ROWS))} of ${whole(count)}`);
    this.earlier.disabled = this.page === 0;
    this.later.disabled = this.page === pages - 1;
    fill(this.pager, this.earlier, this.range, this.later);
  }

  turn(by) {
    this.page += by;
    this.onState({ page: this.page > 0 ? String(this.page + 1) : null });
    if (this.remote) {
      this.askRemote();
    } else {
      this.draw();
    }
  }

  makeLine(key) {
    const line = { key, element: h("tr"), cells: [], texts: [], box: null };
    if (this.selection) {
      line.box = h("input", { type: "checkbox", onchange: () => this.selection.pick(key, line.box.checked) });
      line.element.append(h("td", { class: "pick" }, h("label", { class: "target" }, line.box)));
      line.element.addEventListener("pointerenter", () => this.selection.hover(key));
      line.element.addEventListener("pointerleave", () => this.selection.hover(null));
    }
    line.cells = this.columns.map((column, i) => h(i === 0 ? "th" : "td", { scope: i === 0 ? "row" : null,
      class: classOf(column) }));
    line.element.append(...line.cells);
    return line;
  }

  updateLine(line, row) {
    this.columns.forEach((column, i) => {
      const text = textOf(column, row);
      if (line.texts[i] !== text) {
        line.texts[i] = text;
        fill(line.cells[i], column.cell ? column.cell(row) : h("bdi", {}, text));
      }
    });
    line.box?.setAttribute("aria-label", `Pick ${line.texts[0]}`);
  }

  mark() {
    if (!this.selection) {
      return;
    }
    for (const [key, line] of this.made) {
      line.box.checked = this.selection.picked.has(key);
      line.element.classList.toggle("picked", line.box.checked);
      line.element.classList.toggle("hovered", this.selection.hovered === key);
    }
    const picked = this.shown.filter((row) => this.selection.picked.has(this.keyOf(row))).length;
    this.all.checked = picked > 0 && picked === this.shown.length;
    this.all.indeterminate = picked > 0 && picked < this.shown.length;
  }

  pickAll(on) {
    this.selection.pickMany(this.shown.map(this.keyOf), on);
  }
}

function classOf(column) {
  return [column.numeric && "number", column.minor && "minor", column.wide && "wide"].filter(Boolean).join(" ") || null;
}

function textOf(column, row) {
  const value = column.text ? column.text(row) : column.value(row);
  return value === null || value === undefined ? "–" : String(value);
}

/* A small table that is drawn once: heads and rows of texts or elements. */
export function plainTable(label, heads, rows, numeric = []) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    h("table", {}, h("caption", { class: "unseen" }, label),
      h("thead", {}, h("tr", {}, heads.map((head, i) => h("th", { scope: "col",
        class: numeric.includes(i) ? "number" : null }, head)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, i) =>
        h(i === 0 ? "th" : "td", { scope: i === 0 ? "row" : null, class: numeric.includes(i) ? "number" : null },
          cell instanceof Node ? cell : h("bdi", {}, cell ?? "–"))))))));
}
