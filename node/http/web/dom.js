/* Elements without HTML text. Whatever a user, a program or a node has named goes through text nodes and attributes, so
   no name can become markup. */

const SVG = "http://www.w3.org/2000/svg";

/* An element with attributes and children. `on...` takes a function, `style` a map of CSS properties, `value`, `checked`
   and other names of PROPERTIES are set as properties; null, undefined and false leave an attribute out, true gives an
   empty one. */
const PROPERTIES = new Set(["value", "checked", "indeterminate", "disabled", "htmlFor"]);

export function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  set(element, attributes ?? {});
  append(element, children);
  return element;
}

function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) {
      continue;
    }
    if (name.startsWith("on")) {
      element.addEventListener(name.slice(2), value);
    } else if (name === "style") {
      for (const [property, text] of Object.entries(value)) {
        element.style.setProperty(property, text);
      }
    } else if (PROPERTIES.has(name)) {
      element[name] = value;
    } else {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) {
      element.append(child);
    }
  }
}

/* Replaces the children, unless all of them are there already in this order: then focus and scrolling stay. */
export function fill(parent, ...children) {
  const wanted = children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
  const same = parent.childNodes.length === wanted.length && wanted.every((child, i) => parent.childNodes[i] === child);
  if (!same) {
    parent.replaceChildren(...wanted);
  }
  return parent;
}

/* Sets text only where it changes, so that a selection in it survives an update. */
export function setText(element, text) {
  if (element.textContent !== text) {
    element.textContent = text;
  }
}

/* Text that a program or a user chose, isolated from the direction of its surroundings. */
export function name(text) {
  return h("bdi", { title: text.length > 40 ? text : null }, text);
}

/* Shapes of 16 by 16, so that a state is never told by its colour alone. */
const SHAPES = {
  running: "M4 2.5v11l9-5.5z",
  completed: "M2.5 8.5l3.5 3.5 7.5-8",
  failed: "M3.5 3.5l9 9m0-9l-9 9",
  paused: "M5 3v10M11 3v10",
  queued: "M8 2.5a5.5 5.5 0 1 0 .01 0M8 5v3.2l2.2 1.3",
  cancelled: "M8 2.5a5.5 5.5 0 1 0 .01 0M4.2 4.2l7.6 7.6",
  stopped: "M4 4h8v8h-8z",
  up: "M8 13V3.5M4 7.2l4-4 4 4",
  down: "M8 3v9.5M4 8.8l4 4 4-4",
  warning: "M8 2L14.5 13.5h-13zM8 6.5v3.3M8 11.5v.5",
  dot: "M8 5a3 3 0 1 0 .01 0",
};

export function icon(shape) {
  const element = document.createElementNS(SVG, "svg");
  element.setAttribute("viewBox", "0 0 16 16");
  element.setAttribute("class", `icon icon-${shape}`);
  element.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", SHAPES[shape] ?? SHAPES.dot);
  element.append(path);
  return element;
}
