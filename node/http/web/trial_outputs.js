/* The files that the workers of a trial have left: pictures and tables as such, text on demand, everything to download.
   Pictures come as <img>, in which no script of an SVG runs; all else is put into the page as text. */

import { get, getText, path, url } from "./api.js";
import { fill, h, name, setText } from "./dom.js";
import { bytes, clock, fullTime, parameter, plural, whole } from "./format.js";
import { Table, plainTable } from "./table.js";
import { Summaries } from "./trial_summaries.js";

const PICTURE = /\.(png|jpe?g|gif|webp|svg)$/i;
const GRID = /\.(csv|tsv)$/i;
const TEXT = /\.(txt|log|md|json|jsonl|ya?ml|toml|ini|cfg|py|sh|html?|xml|csv|tsv)$/i;
const PICTURE_BYTES_MAX = 8 << 20;
const TEXT_BYTES_MAX = 1 << 20;
const PICTURES_FIRST = 24;
const TABLES_FIRST = 4;
const TABLE_BYTES_MAX = 256 << 10;
const TABLE_ROWS = 50;
const TABLE_COLUMNS = 30;

export class Outputs {
  /* `address`: that of the trial. */
  constructor(address) {
    this.address = address;
    this.pictures = h("section", { class: "panel", hidden: true });
    this.grids = h("div");
    this.summaries = new Summaries(address);
    this.shown = h("section", { class: "panel", hidden: true });
    this.table = new Table({ label: "Files", keyOf: (row) => `${row.number} ${row.path}`, sort: { id: "path" },
      empty: "No file.", filterHint: "Words, or comparisons such as size>100000", columns: this.columns() });
    this.note = h("p", { class: "quiet" });
    this.files = h("section", { hidden: true }, h("h2", {}, "Files"), this.note, this.table.element);
    this.element = h("div", {}, this.pictures, this.summaries.element, this.grids, this.shown, this.files);
  }

  columns() {
    return [
      { id: "path", title: "File", value: (row) => row.path },
      { id: "size", title: "Size", numeric: true, value: (row) => row.bytes, text: (row) => (row.link ? `→ ${row.link}`
        : bytes(row.bytes)) },
      { id: "modified", title: "Modified", numeric: true, minor: true, value: (row) => row.modified_ms,
        text: (row) => (row.modified_ms ? clock(row.modified_ms) : "–") },
      { id: "number", title: "Worker", numeric: true, minor: true, value: (row) => row.number },
      { id: "get", title: "Open", value: () => "", text: (row) => `${row.path} ${row.bytes}`,
        cell: (row) => this.links(row) },
    ];
  }

  close() {
    this.summaries.close();
  }

  links(row) {
    if (row.kind !== "file") {
      return "–";
    }
    const shows = (TEXT.test(row.path) || PICTURE.test(row.path)) && row.bytes <= TEXT_BYTES_MAX;
    return h("span", { class: "tools" },
      shows && h("button", { type: "button", class: "small", "aria-label": `Show ${row.path}`,
        onclick: () => this.show(row) }, "Show"),
      h("a", { href: this.addressOf(row), download: row.path.split("/").at(-1), "aria-label": `Download ${row.path}` },
        "Download"));
  }

  addressOf(row) {
    return url(`${this.address}/outputs${path(row.number)}/file`, { path: row.path });
  }

  /* `outputs`: as the node lists these. The names of the files are asked for when an output is new. */
  async update(outputs) {
    const version = outputs.map((one) => `${one.number} ${one.hash}`).join();
    if (version === this.version) {
      return;
    }
    this.version = version;
    const listed = await Promise.all(outputs.map((one) => get(`${this.address}/outputs${path(one.number)}/files`)));
    const rows = listed.flatMap(({ files }, i) => files.filter((file) => file.kind !== "directory")
      .map((file) => ({ ...file, number: outputs[i].number })));
    this.files.hidden = rows.length === 0;
    setText(this.note, listed.some((one) => one.cut) ? "The list is cut: shoal output ls has all names."
      : `${plural(rows.length, "file")} of ${plural(outputs.length, "worker")}.`);
    this.table.setRows(rows);
    this.drawPictures(rows.filter((row) => PICTURE.test(row.path) && row.kind === "file" && row.bytes <= PICTURE_BYTES_MAX));
    await this.summaries.update(rows);
    await this.drawGrids(rows.filter((row) => GRID.test(row.path) && row.kind === "file" && row.bytes <= TABLE_BYTES_MAX));
  }

  drawPictures(rows) {
    const sorted = rows.sort((a, b) => a.path.localeCompare(b.path, "en", { numeric: true }));
    const more = sorted.length - PICTURES_FIRST;
    this.pictures.hidden = rows.length === 0;
    fill(this.pictures, h("h2", {}, "Pictures"),
      h("ul", { class: "pictures" }, sorted.slice(0, PICTURES_FIRST).map((row) => this.picture(row))),
      more > 0 && h("p", { class: "quiet" }, `And ${plural(more, "picture")} more in the list of files.`));
  }

  picture(row) {
    return h("li", {}, h("figure", {}, h("a", { href: this.addressOf(row), download: row.path.split("/").at(-1) },
      h("img", { src: this.addressOf(row), loading: "lazy", alt: `Picture ${row.path}` })),
      h("figcaption", {}, name(row.path), h("span", { class: "quiet" }, ` ${bytes(row.bytes)}`))));
  }

  async drawGrids(rows) {
    const sorted = rows.sort((a, b) => a.path.localeCompare(b.path, "en", { numeric: true })).slice(0, TABLES_FIRST);
    const texts = await Promise.all(sorted.map((row) => this.textOf(row)));
    fill(this.grids, sorted.map((row, i) => h("section", { class: "panel" }, h("h2", {}, name(row.path)),
      gridOf(row.path, texts[i]))));
  }

  textOf(row) {
    return getText(`${this.address}/outputs${path(row.number)}/file`, { path: row.path });
  }

  async show(row) {
    const close = h("button", { type: "button", class: "small", onclick: () => (this.shown.hidden = true) }, "Close");
    this.shown.hidden = false;
    const head = h("div", { class: "panel-head" }, h("h2", { tabindex: "-1" }, name(row.path)), close);
    fill(this.shown, head, h("p", { class: "quiet" }, "Loading."));
    let content;
    try {
      content = PICTURE.test(row.path) ? h("img", { class: "whole", src: this.addressOf(row), alt: `Picture ${row.path}` })
        : GRID.test(row.path) ? gridOf(row.path, await this.textOf(row))
        : h("pre", { class: "code preview", tabindex: "0", role: "region", "aria-label": row.path }, await this.textOf(row));
    } catch (problem) {
      content = h("p", { class: "note" }, problem.message);
    }
    fill(this.shown, head, h("p", { class: "quiet" }, row.modified_ms ? `From ${fullTime(row.modified_ms)}.` : ""), content);
    this.shown.scrollIntoView({ block: "nearest" });
    head.firstChild.focus();
  }
}

/* The first rows of a table of text, the first of them as its head. */
function gridOf(title, text) {
  const rows = cells(text, /\.tsv$/i.test(title) ? "\t" : ",");
  const heads = (rows[0] ?? []).slice(0, TABLE_COLUMNS);
  const body = rows.slice(1, TABLE_ROWS + 1).map((row) => heads.map((_, i) => valueOf(row[i])));
  const numeric = heads.map((_, i) => i).filter((i) => body.length > 0 && rows.slice(1, TABLE_ROWS + 1)
    .every((row) => row[i] === undefined || row[i] === "" || Number.isFinite(Number(row[i]))));
  const left = rows.length - 1 - body.length;
  return h("div", {}, heads.length === 0 ? h("p", { class: "quiet" }, "The file is empty.")
    : plainTable(`Table ${title}`, heads, body, numeric),
  left > 0 && h("p", { class: "quiet small-text" }, `The first ${TABLE_ROWS} of ${whole(rows.length - 1)} rows.`));
}

function valueOf(text) {
  return text !== undefined && text.trim() !== "" && Number.isFinite(Number(text)) ? parameter(Number(text)) : text ?? "";
}

/* Comma-separated values (RFC 4180): quotes around a value may hold separators, ends of lines, and doubled quotes. */
export function cells(text, separator) {
  const rows = [];
  let row = [];
  let value = "";
  let quoted = false;
  for (let i = 0; i < text.length && rows.length < 20000; i++) {
    const c = text[i];
    if (quoted) {
      if (c !== '"') {
        value += c;
      } else if (text[i + 1] === '"') {
        value += c;
        i++;
      } else {
        quoted = false;
      }
    } else if (c === '"' && value === "") {
      quoted = true;
    } else if (c === separator) {
      row.push(value);
      value = "";
    } else if (c === "\n") {
      rows.push([...row, value]);
      row = [];
      value = "";
    } else if (c !== "\r") {
      value += c;
    }
  }
  if (value !== "" || row.length > 0) {
    rows.push([...row, value]);
  }
  return rows;
}
