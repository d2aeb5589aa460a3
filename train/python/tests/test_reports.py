"""Reports: packed as libshoal reads them, in order, none lost while the daemon is away; bad ones name the metric."""

import threading
import time
import unittest

import support  # noqa: F401  # puts the package on the path

from shoal import DaemonLost, _msgpack, _reports

try:
    import numpy
except ImportError:
    numpy = None


def unpack_all(data):
    found, data = [], memoryview(data)
    while data.nbytes:
        value, count = _msgpack.unpack(data)
        found.append(value)
        data = data[count:]
    return found


class Packing(unittest.TestCase):
    def check(self, metrics, wanted, step=3, group="training"):
        packer = _reports.Packer()
        for _ in range(2):  # the second one by the layout of the first
            self.assertEqual(unpack_all(packer.pack(group, step, metrics)), [[group, step, wanted]])

    def test_numbers_of_all_kinds(self):
        self.check({"a": 1.5, "b": 2, "c": True}, {"a": 1.5, "b": 2.0, "c": 1.0})
        self.check({"inf": float("inf")}, {"inf": float("inf")})
        self.check({}, {})
        self.check(
            {f"m{i}": i for i in range(100)}, {f"m{i}": float(i) for i in range(100)}, step=(1 << 64) - 1, group="g" * 31
        )

    def test_nested_metrics_are_joined_by_slashes(self):
        self.check({"a": {"b": 1, "c": {"d": 2}}, "e": 3}, {"a/b": 1.0, "a/c/d": 2.0, "e": 3.0})

    @unittest.skipIf(numpy is None, "NumPy is not installed")
    def test_numbers_of_numpy(self):
        self.check({"a": numpy.float32(0.5), "b": numpy.array([2])}, {"a": 0.5, "b": 2.0}, step=numpy.int64(3))
        self.check({"a": {"b": numpy.array(1)}}, {"a/b": 1.0}, step=numpy.int64(3))

    def test_what_is_wrong_is_named(self):
        for group, step, metrics, kind, said in (
            ("training", 1, {"loss": "x"}, TypeError, "metric 'loss' is a str"),
            ("training", 1, {"loss": None}, TypeError, "metric 'loss' is a NoneType"),
            ("training", 1, {"a": {"b": [1]}}, TypeError, "metric 'a/b' is a list"),
            ("training", 1, {"loss": 10**400}, ValueError, "metric 'loss' is too large: beyond 1.8e308"),
            ("training", 1, {"loss": object()}, TypeError, "metric 'loss' is an object"),
            ("training", -1, {"loss": 1}, ValueError, "step is -1"),
            ("training", 1.5, {"loss": 1}, ValueError, "step is 1.5"),
            ("training", 1 << 64, {"loss": 1}, ValueError, "step is 18446744073709551616"),
            ("training", 1, {"": 1}, ValueError, "'' is no name"),
            ("training", 1, {"x" * 128: 1}, ValueError, "is no name"),
            ("training", 1, {"\ud800": 1}, ValueError, "is no name"),
            (
                "training",
                1,
                {f"m{i:0100}": i for i in range(5000)},
                ValueError,
                "5000 metrics are too many for .* limit is 524288",
            ),
            ("training", 1, {"a\nb": 1}, ValueError, r"'a\\nb' is no name .* without control characters"),
            ("training", 1, {"\x1b[2J": 1}, ValueError, r"is no name .* without control characters"),
            ("training", 1, {"a": {"\x9b": 1}}, ValueError, r"is no name .* without control characters"),
            ("a\x7f", 1, {"loss": 1}, ValueError, r"group is 'a\\x7f'; .* without control characters"),
            ("", 1, {"loss": 1}, ValueError, "group is ''"),
            ("g" * 32, 1, {"loss": 1}, ValueError, "group is "),
            (["g"], 1, {"loss": 1}, ValueError, "group is \\['g'\\]"),
            ("training", 1, {"a/b": 1, "a": {"b": 2}}, ValueError, "metric 'a/b' is there twice"),
            ("training", 1, {"a": {"b": 2}, "a/b": 1}, ValueError, "metric 'a/b' is there twice"),
            ("training", 1, {1: 2, "1": 3, "a": {}}, ValueError, "metric '1' is there twice"),
            ("training", 1, ["loss"], TypeError, "metrics is a list"),
            ("training", 1, 3, TypeError, "metrics is an int"),
        ):
            with self.subTest(said=said), self.assertRaisesRegex(kind, said):
                _reports.Packer().pack(group, step, metrics)

    def test_a_bad_report_leaves_the_next_ones_whole(self):
        packer = _reports.Packer()
        for bad in ({"loss": "x"}, ["loss"]):
            with self.assertRaises(TypeError):
                packer.pack("training", 1, bad)
        self.assertEqual(unpack_all(packer.pack("training", 2, {"loss": 1})), [["training", 2, {"loss": 1.0}]])


class Sending(unittest.TestCase):
    def sender(self, take):
        sender = _reports.Sender(take, lambda: None)
        self.addCleanup(sender.end)
        return sender

    def drain(self, sender):
        until = time.monotonic() + 30
        while sender.pending() and time.monotonic() < until:
            sender.send()
        self.assertFalse(sender.pending())

    def test_all_arrive_in_order_though_the_daemon_takes_parts_and_pauses(self):
        got, away = bytearray(), threading.Event()
        away.set()

        def take(data):
            count = 0 if away.is_set() else min(len(data), 1000)
            got.extend(data[:count])
            return count

        sender, packer = self.sender(take), _reports.Packer()
        for step in range(2000):
            sender.put(packer.pack("training", step, {"a": step}))
        self.assertTrue(sender.pending())
        away.clear()
        self.drain(sender)
        self.assertEqual([step for _, step, _ in unpack_all(got)], list(range(2000)))

    def test_threads_lose_nothing(self):
        got = bytearray()

        def take(data):
            got.extend(data)
            return len(data)

        sender, packer = self.sender(take), _reports.Packer()

        def report(number):
            for step in range(1000):
                sender.put(packer.pack(f"g{number}", step, {"a": 1.0}))

        threads = [threading.Thread(target=report, args=(n,)) for n in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        self.drain(sender)
        for number in range(4):
            self.assertEqual([step for group, step, _ in unpack_all(got) if group == f"g{number}"], list(range(1000)))

    def test_a_lost_daemon_is_kept_as_the_error_and_the_reports_stay(self):
        raised = threading.Event()

        def take(data):
            raised.set()
            raise DaemonLost("gone")

        sender = self.sender(take)
        sender.put(b"x")
        self.assertTrue(raised.wait(30))
        sender._thread.join(30)
        self.assertIsInstance(sender.error, DaemonLost)
        self.assertTrue(sender.pending())


if __name__ == "__main__":
    unittest.main()
