/* Reads event files of TensorBoard: records of a length, a check, a message of protobuf, a check. The checks are not looked
   at: the bytes come from this node, which has their hash. A record that is cut short, as at the end of a file that is being
   written, ends the reading. Pure. */

/* The fields of a message: [number, value] pairs, where a value is a number or a Uint8Array. */
function fields(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const found = [];
  let at = 0;
  const varint = () => {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = view.getUint8(at++);
      value += (byte & 127) * factor;
      if (byte < 128) {
        return value;
      }
    }
  };
  const take = (count) => {
    if (count > bytes.byteLength - at) {
      throw new RangeError("cut short");
    }
    at += count;
    return bytes.subarray(at - count, at);
  };
  while (at < bytes.byteLength) {
    const head = varint();
    const kind = head % 8;
    const value = kind === 0 ? varint() : kind === 1 ? doubleOf(take(8)) : kind === 2 ? take(varint())
      : kind === 5 ? floatOf(take(4)) : null;
    if (value === null) {
      throw new RangeError("no kind of protobuf");
    }
    found.push([Math.floor(head / 8), value]);
  }
  return found;
}

function doubleOf(bytes) {
  return new DataView(bytes.buffer, bytes.byteOffset, 8).getFloat64(0, true);
}

function floatOf(bytes) {
  return new DataView(bytes.buffer, bytes.byteOffset, 4).getFloat32(0, true);
}

const first = (list, number) => list.find(([one]) => one === number)?.[1];
const all = (list, number) => list.filter(([one]) => one === number).map(([, value]) => value);
const text = (bytes) => (bytes instanceof Uint8Array ? new TextDecoder().decode(bytes) : "");

/* Packed doubles, or each of them as a field of its own. */
function doubles(list, number) {
  return all(list, number).flatMap((value) => (value instanceof Uint8Array
    ? Array.from({ length: value.byteLength >> 3 }, (_, i) => doubleOf(value.subarray(8 * i, 8 * i + 8))) : [value]));
}

/* A histogram of the old form has limits and counts; one of the new form is a tensor of [left, right, count] rows. */
function histogramOf(message) {
  const list = fields(message);
  const limits = doubles(list, 6);
  const counts = doubles(list, 7);
  return counts.map((count, i) => ({ left: i > 0 ? limits[i - 1] : Math.min(first(list, 1) ?? limits[i], limits[i]),
    right: Math.min(limits[i], first(list, 2) ?? limits[i]), count })).filter(({ count }) => count > 0);
}

function tensorRows(tensor) {
  const content = first(tensor, 4);
  const isDouble = first(tensor, 1) === 2;
  const size = isDouble ? 8 : 4;
  const read = isDouble ? doubleOf : floatOf;
  const numbers = content ? Array.from({ length: Math.floor(content.byteLength / size) },
    (_, i) => read(content.subarray(size * i, size * (i + 1)))) : isDouble ? doubles(tensor, 6) : [];
  return Array.from({ length: Math.floor(numbers.length / 3) }, (_, i) => ({ left: numbers[3 * i], right: numbers[3 * i + 1],
    count: numbers[3 * i + 2] })).filter(({ count }) => count > 0);
}

/* What a value of a summary is: { kind: "image", data } (PNG or JPEG), { kind: "histogram", bars }, { kind: "text", text };
   null for scalars and what nobody looks at here. */
function valueOf(list, plugin) {
  const image = first(list, 4);
  if (image instanceof Uint8Array) {
    return { kind: "image", data: first(fields(image), 4) };
  }
  const histogram = first(list, 5);
  if (histogram instanceof Uint8Array) {
    return { kind: "histogram", bars: histogramOf(histogram) };
  }
  const tensor = first(list, 8);
  if (!(tensor instanceof Uint8Array)) {
    return null;
  }
  const parts = fields(tensor);
  const strings = all(parts, 8);
  return plugin === "text" ? { kind: "text", text: strings.map(text).join("\n") }
    : plugin === "images" && strings.length > 2 ? { kind: "image", data: strings[2] } /* behind width and height */
    : plugin === "histograms" ? { kind: "histogram", bars: tensorRows(parts) } : null;
}

/* Returns a Map of tag to [{ step, kind, ... }], in the order of the file. A tag's plugin is named in its first value
   only. */
export function readEvents(bytes) {
  const tags = new Map();
  const plugins = new Map();
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0; at + 16 <= bytes.byteLength;) {
    const count = Number(view.getBigUint64(at, true));
    if (count > bytes.byteLength - at - 16) {
      break;
    }
    try {
      readEvent(bytes.subarray(at + 12, at + 12 + count), tags, plugins);
    } catch (error) {
      if (!(error instanceof RangeError)) {
        throw error;
      }
      break;
    }
    at += 16 + count;
  }
  return tags;
}

function readEvent(bytes, tags, plugins) {
  const event = fields(bytes);
  const summary = first(event, 5);
  for (const value of summary instanceof Uint8Array ? all(fields(summary), 1) : []) {
    const list = fields(value);
    const tag = text(first(list, 1));
    const metadata = first(list, 9);
    const data = metadata instanceof Uint8Array ? first(fields(metadata), 1) : null;
    if (data instanceof Uint8Array) {
      plugins.set(tag, text(first(fields(data), 1)));
    }
    const found = valueOf(list, plugins.get(tag));
    if (found) {
      tags.set(tag, [...tags.get(tag) ?? [], { step: first(event, 2) ?? 0, ...found }]);
    }
  }
}
