/* Reads the one shape of MessagePack that reaches a page: a map of texts. Pure. */

export function readTexts(bytes) {
  const reader = { view: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), bytes, at: 0 };
  const head = reader.view.getUint8(reader.at++);
  const count = (head & 0xf0) === 0x80 ? head & 0x0f : head === 0xde ? wide(reader, 2) : head === 0xdf ? wide(reader, 4)
    : null;
  if (count === null) {
    throw new Error("The document is no map of texts.");
  }
  const out = {};
  for (let i = 0; i < count; i++) {
    const key = text(reader);
    out[key] = text(reader);
  }
  return out;
}

function wide(reader, size) {
  const value = size === 1 ? reader.view.getUint8(reader.at) : size === 2 ? reader.view.getUint16(reader.at)
    : reader.view.getUint32(reader.at);
  reader.at += size;
  return value;
}

function text(reader) {
  const head = reader.view.getUint8(reader.at++);
  const size = (head & 0xe0) === 0xa0 ? head & 0x1f : head >= 0xd9 && head <= 0xdb ? wide(reader, 1 << (head - 0xd9)) : null;
  if (size === null) {
    throw new Error("The document is no map of texts.");
  }
  const start = reader.at;
  reader.at += size;
  return new TextDecoder().decode(reader.bytes.subarray(start, reader.at));
}
