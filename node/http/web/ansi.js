/* The output of a program as lines: progress bars that a carriage return draws over are folded into their last state,
   colours of terminals become class names, and other control sequences are left out. Pure; text stays text. */

/* CSI sequences, OSC sequences (titles, links), and two-byte escapes. */
const ESCAPE = /\x1b(?:\[([0-9;:]*)([ -/]*[@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])/g;
const CONTROL = /[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]/g;
const LINE_MAX = 4000;

/* The last state of a line in which carriage returns went back to its beginning. A terminal would keep the tail of a
   longer earlier state; tqdm and its kin write full lines, so the last part is what the user saw. */
function foldReturns(line) {
  if (!line.includes("\r")) {
    return line;
  }
  const parts = line.split("\r");
  for (let i = parts.length - 1; i >= 0; i--) {
    if (parts[i].replace(ESCAPE, "").trim() !== "") {
      return parts[i];
    }
  }
  return "";
}

/* Parts of a line: [{ text, look }], where `look` is a list of class names. A line of more than 4,000 characters is cut. */
export function parts(raw) {
  const folded = foldReturns(raw);
  const line = folded.length > LINE_MAX ? `${folded.slice(0, LINE_MAX)}… (${folded.length - LINE_MAX} more characters)`
    : folded;
  if (!line.includes("\x1b")) {
    return [{ text: line.replace(CONTROL, ""), look: "" }];
  }
  const found = [];
  let style = { colour: null, bold: false, faint: false };
  let from = 0;
  const push = (text) => {
    const clean = text.replace(CONTROL, "").replaceAll("\x1b", "");
    if (clean) {
      found.push({ text: clean, look: lookOf(style) });
    }
  };
  for (const match of line.matchAll(ESCAPE)) {
    push(line.slice(from, match.index));
    from = match.index + match[0].length;
    if (match[2] === "m") {
      style = apply(style, match[1]);
    }
  }
  push(line.slice(from));
  return found;
}

function lookOf({ colour, bold, faint }) {
  return [colour !== null && `ansi-${colour}`, bold && "ansi-bold", faint && "ansi-faint"].filter(Boolean).join(" ");
}

/* Select Graphic Rendition: 16 colours of the foreground, bold, faint; colours of 256 and of 24 bits are skipped with
   their arguments. */
function apply(style, text) {
  let next = { ...style };
  const codes = text.split(/[;:]/).map(Number);
  for (let i = 0; i < codes.length; i++) {
    const code = codes[i];
    if (code === 0) {
      next = { colour: null, bold: false, faint: false };
    } else if (code === 1) {
      next.bold = true;
    } else if (code === 2) {
      next.faint = true;
    } else if (code === 22) {
      next.bold = next.faint = false;
    } else if (code === 39) {
      next.colour = null;
    } else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) {
      next.colour = code % 10;
    } else if (code === 38 || code === 48) {
      i += codes[i + 1] === 5 ? 2 : 4;
    }
  }
  return next;
}
