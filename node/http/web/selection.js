/* What the user points at and has picked, shared by all panels of a page: a row that is hovered in the table is thick in
   the chart. */

export class Selection extends EventTarget {
  constructor() {
    super();
    this.hovered = null;
    this.picked = new Set();
  }

  hover(key) {
    if (this.hovered !== key) {
      this.hovered = key;
      this.dispatchEvent(new Event("change"));
    }
  }

  pick(key, on) {
    this.pickMany([key], on);
  }

  pickMany(keys, on) {
    for (const key of keys) {
      if (on) {
        this.picked.add(key);
      } else {
        this.picked.delete(key);
      }
    }
    this.dispatchEvent(new Event("change"));
    this.dispatchEvent(new Event("pick"));
  }

  clear() {
    this.pickMany([...this.picked], false);
  }
}
