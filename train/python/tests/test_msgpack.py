"""MessagePack: all kinds of values keep value and type, and bytes that are none are Malformed, whatever they are."""

import math
import random
import unittest
from collections import OrderedDict

import support  # noqa: F401  # puts the package on the path

from shoal import _msgpack


def same(a, b):
    """Equal, of equal types all the way down."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a.items(), b.items()))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    return a == b


class Values(unittest.TestCase):
    def check(self, value):
        data = _msgpack.pack(value)
        back, count = _msgpack.unpack(data)
        self.assertTrue(same(value, back), f"{value!r} became {back!r}")
        self.assertEqual(count, len(data))

    def test_plain_values_keep_value_and_type(self):
        for value in (
            None,
            True,
            False,
            0.0,
            -0.0,
            1e308,
            5e-324,
            math.inf,
            "",
            "ä",
            "\ud800",
            b"",
            b"\0",
            1j,
            [],
            {},
            (),
            set(),
        ):
            with self.subTest(value=value):
                self.check(value)
        self.assertTrue(math.isnan(_msgpack.unpack(_msgpack.pack(math.nan))[0]))
        self.assertEqual(math.copysign(1, _msgpack.unpack(_msgpack.pack(-0.0))[0]), -1)

    def test_integers_at_every_edge(self):
        for bits in (5, 7, 8, 15, 16, 31, 32, 63, 64, 65, 128, 2000):
            for value in ((1 << bits) - 1, 1 << bits, -(1 << bits), -(1 << bits) - 1):
                self.check(value)

    def test_lengths_at_every_edge(self):
        for count in (15, 16, 31, 32, 255, 256, 65535, 65536):
            self.check("x" * count)
            self.check(b"x" * count)
            self.check([None] * count)
            self.check({i: None for i in range(count)})
            self.check((1,) * count)

    def test_containers_keep_type_and_order(self):
        self.check({"b": 1, "a": (1, [2, (3,)], {"c": ()})})
        self.check(OrderedDict([("z", 1), ("a", OrderedDict())]))
        self.check({(1, 2): "tuple", frozenset([1]): "set", 3: "int", None: 0, b"b": 1, 2.5: 2, True: 3})
        self.check({1, "a", None, (1, 2)})
        self.check(frozenset([1, 2]))

    def test_metadata_of_an_ordered_map_is_kept(self):
        value = OrderedDict(a=1)
        value._metadata = OrderedDict({"": {"version": 1}})
        self.assertEqual(_msgpack.unpack(_msgpack.pack(value))[0]._metadata, value._metadata)

    def test_a_buffer_counts_its_bytes(self):
        wide = memoryview(bytes(range(16))).cast("I")
        self.assertEqual(_msgpack.unpack(_msgpack.pack(wide)), (bytes(range(16)), 18))
        self.assertEqual(_msgpack.unpack(_msgpack.pack(memoryview(b"abcdef")[::2]))[0], b"ace")
        self.assertEqual(_msgpack.unpack(_msgpack.pack(bytearray(b"abc")))[0], b"abc")

    def test_the_error_names_the_path(self):
        for value, path in (
            ({"a": [1, object()]}, "value['a'][1]"),
            ({"a": (1, object())}, "value['a'][1]"),
            ({(1, 2): [object()]}, "value[(1, 2)][0]"),
            (OrderedDict(k=object()), "value['k']"),
        ):
            with self.subTest(path=path), self.assertRaises(TypeError) as caught:
                _msgpack.pack(value)
            self.assertIn(f"{path} is a builtins.object", str(caught.exception))

    def test_a_list_that_holds_itself_is_refused(self):
        value = []
        value.append(value)
        with self.assertRaises(RecursionError):
            _msgpack.pack(value)

    def test_the_deepest_value_that_is_packed_is_read(self):
        for wrap in (lambda v: [v], lambda v: (v,), lambda v: {"k": v}, lambda v: {(1,): v}, lambda v: OrderedDict(k=v)):
            value, data = 0, b""
            while True:
                try:
                    data = _msgpack.pack(value)
                except RecursionError:
                    break
                self.assertEqual(_msgpack.unpack(data)[0], value)
                value = wrap(value)


class BadBytes(unittest.TestCase):
    def unpack(self, data):
        try:
            _msgpack.unpack(data)
        except _msgpack.Malformed:
            pass

    def test_every_cut_and_flipped_bit_is_malformed_or_a_value(self):
        data = bytearray(_msgpack.pack({"a": [1, (2, 3), {4, 5}], (1,): OrderedDict(k=1 << 70), "c": 1j, "ä": b"1"}))
        for i in range(len(data)):
            with self.assertRaises(_msgpack.Malformed):
                _msgpack.unpack(data[:i])
            for bit in range(8):
                data[i] ^= 1 << bit
                self.unpack(data)
                data[i] ^= 1 << bit

    def test_random_bytes(self):
        draw = random.Random(7)
        for _ in range(20000):
            self.unpack(
                bytes(draw.choice((draw.randrange(256), draw.randrange(0x80, 0xE0))) for _ in range(draw.randrange(40)))
            )

    def test_keys_that_cannot_be_hashed(self):
        for key in (b"\x90", b"\x80", _msgpack.pack(set()), _msgpack.pack(([],)), _msgpack.pack(OrderedDict())):
            with self.subTest(key=key), self.assertRaises(_msgpack.Malformed):
                _msgpack.unpack(b"\x81" + key + b"\x01")

    def test_an_ordered_map_without_its_second_half(self):
        with self.assertRaises(_msgpack.Malformed):
            _msgpack.unpack(b"\xd5" + bytes([_msgpack.ORDERED]) + b"\x91\x90")

    def test_lengths_beyond_the_bytes_take_no_memory(self):
        for code in range(0xC4, 0xE0):
            self.unpack(bytes([code]) + b"\xff" * 8)

    def test_deep_bytes(self):
        self.unpack(b"\x91" * 100000)


if __name__ == "__main__":
    unittest.main()
