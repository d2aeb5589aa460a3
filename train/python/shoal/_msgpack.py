"""MessagePack of plain Python values, with marks for what MessagePack has no word for.

The package depends on nothing, so that it can be put on the path of any interpreter; hence this reader and writer. Tuples,
sets, ordered maps, large integers and complex numbers travel as extension types, so that ``unpack(pack(x)) == x`` and the types
are kept; only other buffers than bytes become bytes. https://github.com/msgpack/msgpack/blob/master/spec.md
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Callable

# Extension types. 1 to 9 are this module's; 32 and above belong to the caller's `default` and `ext_hook`.
TUPLE, SET, FROZENSET, PAIRS, ORDERED, INT, COMPLEX = range(1, 8)

DEPTH_MAX = 64

Default = Callable[[Any, str], "tuple[int, bytes]"]
ExtHook = Callable[[int, memoryview], Any]


class Malformed(ValueError):
    """The bytes are no MessagePack of this module."""


class _Packer:
    def __init__(self, default: Default | None) -> None:
        self.out = bytearray()
        self.default = default

    def head(self, count: int, fix: int, fix_max: int, wide: tuple[int, int, int]) -> None:
        """The head of a text, binary, array, map or extension; 0 in `wide`: there is no such width."""
        if count <= fix_max:
            self.out.append(fix | count)
        elif count < 1 << 8 and wide[0]:
            self.out += struct.pack(">BB", wide[0], count)
        elif count < 1 << 16:
            self.out += struct.pack(">BH", wide[1], count)
        elif count < 1 << 32:
            self.out += struct.pack(">BI", wide[2], count)
        else:
            raise OverflowError(f"MessagePack holds at most 2**32 - 1 elements, not {count}")

    def integer(self, value: int) -> None:
        if 0 <= value < 128:
            self.out.append(value)
        elif -32 <= value < 0:
            self.out.append(value & 0xFF)
        elif 0 <= value < 1 << 64:
            for code, form, bits in ((0xCC, ">BB", 8), (0xCD, ">BH", 16), (0xCE, ">BI", 32), (0xCF, ">BQ", 64)):
                if value < 1 << bits:
                    self.out += struct.pack(form, code, value)
                    return
        elif -(1 << 63) <= value < 0:
            for code, form, bits in ((0xD0, ">Bb", 7), (0xD1, ">Bh", 15), (0xD2, ">Bi", 31), (0xD3, ">Bq", 63)):
                if value >= -(1 << bits):
                    self.out += struct.pack(form, code, value)
                    return
        else:
            self.extension(INT, value.to_bytes((value.bit_length() + 8) // 8, "big", signed=True))

    def extension(self, kind: int, payload: bytes) -> None:
        fixed = {1: 0xD4, 2: 0xD5, 4: 0xD6, 8: 0xD7, 16: 0xD8}.get(len(payload))
        if fixed is not None:
            self.out.append(fixed)
        else:
            self.head(len(payload), 0, -1, (0xC7, 0xC8, 0xC9))
        self.out += struct.pack(">b", kind)
        self.out += payload

    def inner(self, kind: int, value: Any, path: str, depth: int) -> None:
        packer = _Packer(self.default)
        packer.value(value, path, depth + 1)
        self.extension(kind, bytes(packer.out))

    def mapping(self, value: dict[Any, Any], path: str, depth: int) -> None:
        if not all(type(key) in (str, int, bool, float, bytes) or key is None for key in value):
            self.pairs(PAIRS, value, path, depth)
            return
        self.head(len(value), 0x80, 15, (0, 0xDE, 0xDF))
        for key, item in value.items():
            self.value(key, path, depth + 1)
            self.value(item, f"{path}[{key!r}]", depth + 1)

    def pairs(self, kind: int, value: Mapping[Any, Any], path: str, depth: int) -> None:
        """PAIRS is [[key, item], ...]; ORDERED is [[[key, item], ...], metadata]."""
        packer = _Packer(self.default)
        if kind == ORDERED:
            packer.out.append(0x92)
        packer.head(len(value), 0x90, 15, (0, 0xDC, 0xDD))
        for key, item in value.items():
            packer.out.append(0x92)
            packer.value(key, f"{path}, key {key!r},"[:200], depth + 3)
            packer.value(item, f"{path}[{key!r}]", depth + 3)
        if kind == ORDERED:
            packer.value(getattr(value, "_metadata", None), f"{path}._metadata", depth + 2)
        self.extension(kind, bytes(packer.out))

    def value(self, value: Any, path: str, depth: int = 0) -> None:  # noqa: PLR0912  # one branch for each type
        if depth > DEPTH_MAX:
            raise RecursionError(f"{path[:200]} lies more than {DEPTH_MAX} levels deep; does it hold itself?")
        kind = type(value)
        if value is None:
            self.out.append(0xC0)
        elif kind is bool:
            self.out.append(0xC3 if value else 0xC2)
        elif kind is int:
            self.integer(value)
        elif kind is float:
            self.out += struct.pack(">Bd", 0xCB, value)
        elif kind is str:
            text = value.encode("utf-8", "surrogatepass")
            self.head(len(text), 0xA0, 31, (0xD9, 0xDA, 0xDB))
            self.out += text
        elif kind in (bytes, bytearray, memoryview):
            data = bytes(value)  # a buffer of wide elements is longer than its len()
            self.head(len(data), 0, -1, (0xC4, 0xC5, 0xC6))
            self.out += data
        elif kind is list:
            self.head(len(value), 0x90, 15, (0, 0xDC, 0xDD))
            for i, item in enumerate(value):
                self.value(item, f"{path}[{i}]", depth + 1)
        elif kind is dict:
            self.mapping(value, path, depth)
        elif kind is tuple:
            self.inner(TUPLE, list(value), path, depth)
        elif kind is OrderedDict:
            self.pairs(ORDERED, value, path, depth)
        elif kind in (set, frozenset):
            self.inner(SET if kind is set else FROZENSET, sorted(value, key=repr), path, depth)
        elif kind is complex:
            self.extension(COMPLEX, struct.pack(">dd", value.real, value.imag))
        elif self.default is not None:
            self.extension(*self.default(value, path))
        else:
            raise TypeError(f"{path} is a {kind.__module__}.{kind.__qualname__}, which MessagePack cannot hold")


def pack(value: Any, default: Default | None = None, path: str = "value") -> bytes:
    """The bytes of `value`. For values of other types ``default(value, path)`` gives an extension, a number from 32 to 127
    and its bytes, or raises. `path` is the name of `value` in error messages. TypeError, RecursionError, OverflowError."""
    packer = _Packer(default)
    packer.value(value, path)
    return bytes(packer.out)


class _Reader:
    def __init__(self, data: memoryview, ext_hook: ExtHook | None) -> None:
        self.data, self.at, self.ext_hook = data, 0, ext_hook

    def take(self, count: int) -> memoryview:
        if count > len(self.data) - self.at:
            raise Malformed("the bytes end in the middle of a value")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def text(self, count: int) -> str:
        return str(self.take(count), "utf-8", "surrogatepass")

    def array(self, count: int, depth: int) -> list[Any]:
        if count > len(self.data) - self.at:
            raise Malformed("an array announces more elements than there are bytes")
        return [self.value(depth + 1) for _ in range(count)]

    def mapping(self, count: int, depth: int) -> dict[Any, Any]:
        if 2 * count > len(self.data) - self.at:
            raise Malformed("a map announces more pairs than there are bytes")
        out = {}
        for _ in range(count):
            key = self.value(depth + 1)
            item = self.value(depth + 1)
            try:
                out[key] = item
            except TypeError as error:
                raise Malformed(f"a key is a {type(key).__name__}, or holds what no key may hold") from error
        return out

    def extension(self, count: int, depth: int) -> Any:
        kind: int = self.number(">b")
        payload = self.take(count)
        if kind == INT:
            return int.from_bytes(payload, "big", signed=True)
        if kind == COMPLEX and count == 16:
            return complex(*struct.unpack(">dd", payload))
        if kind in (TUPLE, SET, FROZENSET, PAIRS, ORDERED):
            return self.container(kind, payload, depth)
        if self.ext_hook is not None:
            return self.ext_hook(kind, payload)
        raise Malformed(f"extension type {kind} is not known here")

    def container(self, kind: int, payload: memoryview, depth: int) -> Any:
        reader = _Reader(payload, self.ext_hook)
        inner = reader.value(depth + 1)
        try:
            if kind == TUPLE:
                return tuple(inner)
            if kind in (SET, FROZENSET):
                return (set if kind == SET else frozenset)(inner)
            if kind == PAIRS:
                return dict(inner)
            ordered, metadata = OrderedDict(inner[0]), inner[1]
        except (TypeError, ValueError, LookupError) as error:
            raise Malformed(f"extension type {kind} does not hold what it should") from error
        if metadata is not None:
            ordered._metadata = metadata  # type: ignore[attr-defined]  # torch.nn.Module.state_dict puts it there
        return ordered

    def value(self, depth: int = 0) -> Any:  # noqa: PLR0911, PLR0912  # one branch for each form of the format
        if depth > 2 * DEPTH_MAX:
            raise Malformed(f"values lie more than {2 * DEPTH_MAX} levels deep")
        code: int = self.number(">B")
        if code < 0x80:
            return code
        if code < 0x90:
            return self.mapping(code & 0x0F, depth)
        if code < 0xA0:
            return self.array(code & 0x0F, depth)
        if code < 0xC0:
            return self.text(code & 0x1F)
        if code >= 0xE0:
            return code - 256
        if code in _PLAIN:
            return _PLAIN[code]
        if code in _NUMBERS:
            return self.number(_NUMBERS[code])
        if 0xD4 <= code <= 0xD8:
            return self.extension(1 << (code - 0xD4), depth)
        if code not in _LENGTHS:
            raise Malformed("0xc1 begins no value")
        form, what = _LENGTHS[code]
        count: int = self.number(form)
        if what == "text":
            return self.text(count)
        if what == "bytes":
            return bytes(self.take(count))
        if what == "array":
            return self.array(count, depth)
        if what == "map":
            return self.mapping(count, depth)
        return self.extension(count, depth)


_PLAIN = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
    0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
}  # fmt: skip
_LENGTHS = {
    0xC4: (">B", "bytes"), 0xC5: (">H", "bytes"), 0xC6: (">I", "bytes"),
    0xC7: (">B", "ext"), 0xC8: (">H", "ext"), 0xC9: (">I", "ext"),
    0xD9: (">B", "text"), 0xDA: (">H", "text"), 0xDB: (">I", "text"),
    0xDC: (">H", "array"), 0xDD: (">I", "array"), 0xDE: (">H", "map"), 0xDF: (">I", "map"),
}  # fmt: skip


def unpack(data: Any, ext_hook: ExtHook | None = None) -> tuple[Any, int]:
    """The first value in `data` (bytes or a buffer) and the number of bytes that it takes. ``ext_hook(kind, payload)`` makes
    the values of other extension types. Raises Malformed, whatever the bytes are."""
    reader = _Reader(memoryview(data).cast("B"), ext_hook)
    try:
        value = reader.value()
    except (UnicodeDecodeError, RecursionError, struct.error) as error:
        raise Malformed(str(error)) from error
    return value, reader.at
