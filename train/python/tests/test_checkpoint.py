"""Checkpoints: states of all kinds come back as they were, what cannot be saved is named, and damage is a CheckpointError."""

import json
import os
import pickle
import random
import struct
import subprocess
import sys
import unittest
from collections import OrderedDict, namedtuple
from unittest import mock

from support import blob, read, round_trip

from shoal import CheckpointError, NotSerialisable, _checkpoint, _msgpack, _tensors

try:
    import numpy
except ImportError:
    numpy = None
try:
    import torch
except ImportError:
    torch = None
try:
    import safetensors
    import safetensors.numpy
except ImportError:
    safetensors = None

needs_torch = unittest.skipIf(torch is None, "PyTorch is not installed")
needs_numpy = unittest.skipIf(numpy is None, "NumPy is not installed")


def files(state):
    return {name: bytes(view) for name, view in _checkpoint.open_files(memoryview(blob(state))).views.items()}


class Plain(unittest.TestCase):
    def test_plain_states_of_all_shapes(self):
        for state in (None, 1, "text", [], (), {}, {"a": (1, [2.5, None], {"b": {3}})}, {(1, 2): [b"x"]}, OrderedDict(a=1)):
            self.assertEqual(round_trip(state), state)

    def test_random_generator_of_python(self):
        state = random.Random(3).getstate()
        self.assertEqual(round_trip(state), state)

    def test_the_path_of_what_cannot_be_saved(self):
        point = namedtuple("Point", "x y")
        for state, path in (
            ({"a": {"b": [1, object()]}}, "state['a']['b'][1]"),
            ({"a": (1, lambda: 0)}, "state['a'][1]"),
            ({(1, 2): {"c": object()}}, "state[(1, 2)]['c']"),
            ({"p": point(1, 2)}, "state['p']"),
            (object(), "state"),
        ):
            with self.subTest(path=path), self.assertRaises(NotSerialisable) as caught:
                blob(state)
            self.assertTrue(str(caught.exception).startswith(f"{path} is a "), caught.exception)

    def test_a_state_that_holds_itself(self):
        state = {}
        state["again"] = state
        with self.assertRaises(NotSerialisable):
            blob(state)

    def test_an_object_with_a_state_dict_is_told_to_give_it(self):
        with self.assertRaisesRegex(NotSerialisable, r"state\['m'\] is a .*; give its state_dict\(\) instead"):
            blob({"m": type("Model", (), {"state_dict": lambda self: {}})()})

    def test_pickled_values_only_when_asked_both_times(self):
        state = {"when": complex, "n": 1}
        with self.assertRaises(NotSerialisable):
            blob(state)
        data = blob(state, pickle=True)
        self.assertEqual(read(data, pickle=True), state)
        with self.assertRaisesRegex(CheckpointError, "pickled"):
            read(data)

    def test_what_pickle_refuses_is_named(self):
        with self.assertRaises(NotSerialisable) as caught:
            blob({"a": [lambda: 0]}, pickle=True)
        self.assertTrue(str(caught.exception).startswith("state['a'][0] "), caught.exception)

    def test_a_pickle_that_cannot_be_read_is_a_checkpoint_error(self):
        data = blob({"a": _checkpoint.lay_out}, pickle=True)
        self.assertIn(b"lay_out", data)
        with self.assertRaises(CheckpointError):
            read(data.replace(b"lay_out", b"lay_off"), pickle=True)

    def test_differences_name_keys_and_kinds(self):
        found = _checkpoint.differences({"a": 1, "b": [1]}, {"a": "x", "c": 2, "b": [1, 2]})
        self.assertEqual(len(found), 3)
        self.assertIn("state['c'] is not in the checkpoint", found)
        self.assertIn("state['a'] is a number in the checkpoint and a str here", found)

    def test_neither_torch_nor_numpy_is_imported(self):
        code = "import sys, support; support.round_trip({'a': 1}); print([m for m in ('torch', 'numpy') if m in sys.modules])"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=os.path.dirname(__file__)
        )
        self.assertEqual(done.stdout, "[]\n")


@needs_numpy
class Numpy(unittest.TestCase):
    def test_every_type_and_shape(self):
        for name in [name for _, _, name in _tensors.DTYPES.values()] + ["complex128"]:
            for shape in ((), (0,), (3,), (2, 0, 3), (2, 3, 4)) if name else ():
                array = numpy.random.default_rng(1).integers(0, 2, shape).astype(name)
                back = round_trip({"m": {"a": numpy.asarray(array)}})["m"]["a"]
                self.assertEqual((back.dtype, back.shape), (array.dtype, shape))
                numpy.testing.assert_array_equal(back, array)

    def test_scalars_stay_scalars(self):
        back = round_trip([numpy.float32(1.5), numpy.bool_(True), numpy.int64(-3), numpy.complex128(1 + 1e-12j)])
        self.assertEqual([type(value) for value in back], [numpy.float32, numpy.bool_, numpy.int64, numpy.complex128])
        self.assertEqual(back, [1.5, True, -3, 1 + 1e-12j])

    def test_strided_reversed_and_big_endian_arrays(self):
        array = numpy.arange(24.0).reshape(4, 6)
        for each in (array.T, array[::2, ::-1], array.astype(">f8"), numpy.broadcast_to(array[0], (3, 6))):
            numpy.testing.assert_array_equal(round_trip(each), each)

    def test_loaded_arrays_can_be_written(self):
        back = round_trip({"m": {"a": numpy.zeros(3)}})["m"]["a"]
        back += 1
        self.assertEqual(back.sum(), 3)

    def test_random_generator(self):
        generator = numpy.random.RandomState(4)
        other = numpy.random.RandomState(5)
        other.set_state(round_trip({"rng": generator.get_state()})["rng"])
        self.assertEqual(generator.rand(), other.rand())

    def test_arrays_without_a_name_in_safetensors_are_named(self):
        for array in (numpy.array([object()]), numpy.array(["a"]), numpy.zeros(1, "M8[s]"), numpy.zeros(1, [("a", "i4")])):
            with self.assertRaises(NotSerialisable) as caught:
                blob({"a": {"b": array}})
            self.assertIn("state['a']['b'] cannot be saved", str(caught.exception))

    def test_names_that_meet_are_kept_apart(self):
        a = [numpy.full(1, i) for i in range(9)]
        state = {
            "m": {"a.b": a[0], "a": {"b": a[1]}, "a.b#2": a[2], "__metadata__": a[3], "": a[4], 0: a[5], "0": a[6]},
            "tensors": {"x": a[7]},
            "x": a[8],
            "m/a": a[0],
            "m.a": {"b": a[1]},
        }
        back = round_trip(state)
        self.assertEqual(list(back["m"]), list(state["m"]))
        for key in state["m"]:
            self.assertEqual(back["m"][key], state["m"][key])
        self.assertEqual([back["tensors"]["x"][0], back["x"][0], back["m/a"][0], back["m.a"]["b"][0]], [7, 8, 0, 1])

    def test_odd_keys_make_no_odd_files(self):
        odd = ("../up", "a/b", "", ".hidden", "x" * 300, "ä", "\ud800", "a\0b", "a\n", 7, (1, 2), None)
        state = {key: {"w": numpy.full(1, i)} for i, key in enumerate(odd)} | {"ok": {"\ud800": numpy.zeros(1)}}
        self.assertEqual(sorted(files(state)), ["ok.safetensors", "state.msgpack", "tensors.safetensors"])
        back = round_trip(state)
        self.assertEqual([back[key]["w"][0] for key in odd], list(range(len(odd))))

    def test_an_unchanged_array_lies_where_it_lay(self):
        def offset(step, head):
            data = blob({"step": step, "m": {"head": numpy.full(1000, head), "body": numpy.full(100000, 7.25)}}, step)
            return data.index(struct.pack("<d", 7.25) * 100000)

        self.assertEqual(offset(1, 0.5), offset(2_000_000, 0.75))

    def test_chunks_begin_where_large_arrays_do(self):
        layout = _checkpoint.lay_out({"m": {"big": numpy.zeros(1 << 20), "small": numpy.zeros(3)}}, 1)
        starts = [offset for offset, _, count, _ in layout.parts if count == 8 << 20]
        self.assertIn(starts[0], layout.cuts)
        self.assertEqual(layout.cuts, sorted(set(layout.cuts)))
        self.assertEqual(starts[0] % _tensors.ALIGNMENT, 0)

    def test_cuts_ascend_below_the_end_whatever_is_empty(self):
        big, empty = numpy.zeros(1 << 17), numpy.zeros(0)
        for state in ({"m": {"a": big, "b": empty}, "n": {"c": big, "d": empty}}, {"m": {"a": empty, "b": big}}, {}):
            layout = _checkpoint.lay_out(state, 1)
            self.assertEqual(layout.cuts, sorted(set(layout.cuts)))
            self.assertLess(layout.cuts[-1], layout.bytes)

    def test_cuts_of_very_many_arrays_are_thinned(self):
        for count in (1 << 20, (1 << 40) + 12345):
            cuts = _checkpoint._thin(list(range(0, count, count // 200_000)), count)
            self.assertGreater(len(cuts), _checkpoint.CUTS_MAX // 2)
            self.assertLessEqual(len(cuts), _checkpoint.CUTS_MAX)

    def test_arrays_that_did_not_change_are_the_same_parts_again(self):
        def parts(state, step):
            layout = _checkpoint.lay_out(state, step)
            data = bytearray(layout.bytes)
            layout.write(memoryview(data))
            return [bytes(data[a:b]) for a, b in zip(layout.cuts, [*layout.cuts[1:], layout.bytes])]

        rng = numpy.random.default_rng(1)
        model = {}
        for i in range(10):  # names and sizes interleaved: large, small, large, small
            model[f"layer{i}.weight"] = rng.random((300, 1001), "f4")
            model[f"layer{i}.bias"] = rng.random(1001, "f4")
        first = set(parts({"step": 99, "model": model}, 99))
        model["layer4.weight"] = model["layer4.weight"] * 2
        second = parts({"step": 100_000, "note": "longer than before", "model": model}, 100_000)
        new = sum(len(part) for part in second if part not in first)
        self.assertLessEqual(new, 0.12 * sum(map(len, second)))

    @unittest.skipIf(safetensors is None, "safetensors is not installed")
    def test_the_safetensors_library_reads_the_files(self):
        state = {
            "m": {name: numpy.ones((2, 3), name) for _, _, name in _tensors.DTYPES.values() if name},
            "n": {"e": numpy.zeros(0)},
        }
        state["m"]["ä\ud800\n"] = numpy.zeros(3)
        state["m"]["pairs"] = numpy.full(3, 1 + 2j)
        found = files(state)
        back = safetensors.numpy.load(found["m.safetensors"])
        self.assertEqual(len(back), len(state["m"]))
        numpy.testing.assert_array_equal(back["float64"], state["m"]["float64"])
        numpy.testing.assert_array_equal(back["pairs"], [[1, 2]] * 3)
        self.assertEqual(safetensors.numpy.load(found["n.safetensors"])["e"].shape, (0,))


@needs_torch
class Torch(unittest.TestCase):
    def equal(self, a, b):
        self.assertEqual((a.dtype, a.shape), (b.dtype, b.shape))
        self.assertTrue(a.numel() == 0 or torch.equal(a.to(torch.complex128), b.to(torch.complex128)))

    def test_every_type_and_shape(self):
        for name in [name for _, name, _ in _tensors.DTYPES.values()] + list(_tensors.PAIRS):
            for shape in ((), (0,), (3,), (2, 0, 3), (2, 3)) if hasattr(torch, name) else ():
                with self.subTest(name=name, shape=shape):
                    tensor = torch.ones(shape).to(getattr(torch, name))
                    self.equal(round_trip({"m": {"t": tensor}})["m"]["t"], tensor)

    def test_strided_expanded_sliced_and_conjugated(self):
        base = torch.arange(24.0).reshape(4, 6)
        for each in (base.t(), base[::2, 1::2], base[:1].expand(3, 6), torch.conj(torch.tensor([1 + 2j])), base[2],
                     torch.tensor([[1 + 1e-12j, 2j]], dtype=torch.complex128).t().conj()):  # fmt: skip
            self.equal(round_trip({"m": {"t": each}})["m"]["t"], each)

    def test_tied_tensors_are_one_before_and_after(self):
        weight = torch.nn.Parameter(torch.randn(1000))
        state = {"m": {"a": weight, "b": weight, "c": weight.detach()}, "other": {"d": weight}}
        self.assertLess(len(blob(state)), 4000 + 3 * 4096)
        back = round_trip(state)
        self.assertIs(back["m"]["a"], back["m"]["b"])
        self.assertIs(back["m"]["a"], back["other"]["d"])

    def test_views_of_one_memory_are_kept_apart(self):
        base = torch.arange(10.0)
        back = round_trip({"a": base[:5], "b": base[5:], "c": base[:5].view(torch.int32)})
        self.assertEqual([back["a"][0], back["b"][0]], [0, 5])
        self.assertEqual(back["c"].dtype, torch.int32)

    def test_empty_tensors_are_not_tied(self):
        back = round_trip([torch.zeros(0), torch.zeros(0, 3)])
        self.assertEqual([tuple(each.shape) for each in back], [(0,), (0, 3)])

    def test_optimizers_go_on_as_if_never_saved(self):
        for make in (
            lambda p: torch.optim.Adam(p, lr=0.1, amsgrad=True),
            lambda p: torch.optim.AdamW(p, lr=0.1),
            lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
        ):
            torch.manual_seed(1)
            model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
            other = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
            first, second = make(model.parameters()), make(other.parameters())

            def step(model, optimizer, x):
                optimizer.zero_grad()
                model(x).square().sum().backward()
                optimizer.step()

            x = torch.randn(4, 3)
            step(model, first, x)
            state = round_trip({"model": model.state_dict(), "optimizer": first.state_dict()})
            self.assertIsInstance(state["model"], OrderedDict)
            self.assertEqual(state["model"]._metadata, model.state_dict()._metadata)
            other.load_state_dict(state["model"])
            second.load_state_dict(state["optimizer"])
            for _ in range(3):
                step(model, first, x)
                step(other, second, x)
            for a, b in zip(model.parameters(), other.parameters()):
                self.assertTrue(torch.equal(a, b))

    def test_random_generator(self):
        state = round_trip({"rng": torch.get_rng_state()})["rng"]
        a = torch.rand(1)
        torch.set_rng_state(state)
        self.assertEqual(torch.rand(1), a)

    def test_sizes_types_and_devices(self):
        state = [torch.Size([2, 3]), torch.float16, torch.device("cuda:1")]
        back = round_trip(state)
        self.assertEqual(back, state)
        self.assertIsInstance(back[0], torch.Size)

    def test_tensors_without_bytes_of_their_own_are_named(self):
        for tensor in (
            torch.zeros(2, device="meta"),
            torch.zeros(2, 2).to_sparse(),
            torch.quantize_per_tensor(torch.zeros(1), 1, 0, torch.quint8),
        ):
            with self.assertRaises(NotSerialisable) as caught:
                blob({"m": {"w": tensor}})
            self.assertIn("state['m']['w'] cannot be saved", str(caught.exception))

    def test_a_checkpoint_of_another_model(self):
        a, b = torch.nn.Linear(3, 2).state_dict(), torch.nn.Linear(3, 4).state_dict()
        self.assertEqual(
            _checkpoint.differences(round_trip({"m": a}), {"m": b})[0],
            "state['m']['weight'] is float32[2, 3] in the checkpoint and float32[4, 3] here",
        )

    def test_loading_runs_no_function_that_the_bytes_name(self):
        data = _msgpack.pack(["torch.dtype", "torch.save"])
        with self.assertRaises(CheckpointError):
            _checkpoint._named(memoryview(data))


class Damage(unittest.TestCase):
    def attempt(self, data):
        try:
            read(data)
        except CheckpointError:
            pass

    def state(self):
        state = {"m": {"a": 1, "b": [(2, {3})]}, "o": OrderedDict(k=1j), "big": 1 << 80}
        if numpy is not None:
            state["m"]["w"] = numpy.arange(6.0).reshape(2, 3)
        if torch is not None:
            state["t"] = {"w": torch.zeros(2, 3, dtype=torch.bfloat16), "dtype": torch.float32, "size": torch.Size([1])}
        return state

    def test_every_cut(self):
        data = blob(self.state())
        for i in range(0, len(data) - 1, 7):
            self.attempt(data[:i])

    def test_random_bytes_at_random_places(self):
        data, draw = blob(self.state()), random.Random(11)
        busy = [i for i, byte in enumerate(data) if byte]
        for _ in range(6000):
            bad = bytearray(data)
            for _ in range(draw.choice((1, 1, 2, 8))):
                bad[draw.choice(busy)] = draw.choice((draw.randrange(256), 0, 0xFF, 0x90, 0xC0, 0xA1, 0xCF))
            self.attempt(bad)

    def test_headers_that_say_what_is_not_so(self):
        for entry in (
            {"dtype": "F32", "shape": [1], "data_offsets": [0.0, 4.0]},
            {"dtype": "F32", "shape": [1e999], "data_offsets": [0, 4]},
            {"dtype": "F32", "shape": [-1, -1], "data_offsets": [0, 4]},
            {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]},
            {"dtype": "F32", "shape": [0, 1 << 70], "data_offsets": [0, 0]},
            {"dtype": "F32", "shape": [True], "data_offsets": [-4, 0]},
            {"dtype": ["F32"], "shape": [1], "data_offsets": [0, 4]},
            {"dtype": "F32", "shape": "1", "data_offsets": [0, 4]},
            {"dtype": "F32", "shape": [1], "data_offsets": 4},
            [], None, 3,
        ):  # fmt: skip
            for kind in (*_tensors.KINDS, ["?"]):
                with self.subTest(entry=entry, kind=kind), self.assertRaises(CheckpointError):
                    _tensors.read(memoryview(bytearray(8)), json.loads(json.dumps(entry)), 0, kind, "w")

    def test_pairs_that_are_none(self):
        for dtype, shape, count in (("F64", [0, 3], 0), ("F64", [], 8), ("F32", [2], 8)):
            entry = {"dtype": dtype, "shape": shape, "data_offsets": [0, count]}
            with self.assertRaisesRegex(CheckpointError, "it should be pairs of reals"):
                _tensors.read(memoryview(bytearray(8)), entry, 0, "torch pairs", "w")

    def test_a_listing_with_a_number_for_a_path(self):
        with self.assertRaises(CheckpointError):
            _checkpoint.open_files(memoryview(_msgpack.pack([1, [[1 << 60, 1, 0, 0, 0, b""]], b""])))

    def test_bytes_of_other_programs_are_not_read_as_a_listing(self):
        others = {
            "zip": b"PK\x03\x04" + bytes(60), "npy": b"\x93NUMPY\x01\x00v\x00{'descr': '<f4'}", "zeros": bytes(64),
            "json": b'{"step": 3}', "map": _msgpack.pack({"step": 3}), "array": _msgpack.pack([[1, 2], "x"]), "short": b"\x92",
            "nothing": b"",
        }  # fmt: skip
        with mock.patch.object(_msgpack, "unpack", side_effect=AssertionError("it is read")):
            for name, data in others.items():
                with (
                    self.subTest(name),
                    self.assertRaisesRegex(CheckpointError, "was not written by run.save .* begins with b"),
                ):
                    _checkpoint.open_files(memoryview(data))
            with self.assertRaisesRegex(CheckpointError, "listed in version 2, and this package reads version 1"):
                _checkpoint.open_files(memoryview(b"\x93\x02\x90\xc0"))

    def test_listings_of_all_lengths_are_whole_pages(self):
        with_path = len(_msgpack.pack([1, [[bytes(300), 1, 0o644, 1, 0, b""]], b""])) - 300
        for length in range(4096 - with_path - 600, 4096 - with_path + 10):
            listing = _checkpoint._listing(["n" * length], [1])
            self.assertEqual(len(listing) % 4096, 0, length)
            self.assertEqual(list(_checkpoint.open_files(memoryview(listing + b"x")).views), ["n" * length])

    def test_a_directory_that_another_program_wrote(self):
        data = _msgpack.pack([1, [[b"model.bin", 1, 0o644, 3, 0, b""]], b""]) + b"abc"
        with self.assertRaisesRegex(CheckpointError, "model.bin: it is a directory; read it from run.restore_dir"):
            read(bytearray(data))

    def test_a_newer_version(self):
        for tree, said in (({"version": 2}, "version 2"), ([], "cannot be read"), ({"version": 1}, "cannot be read")):
            with self.assertRaisesRegex(CheckpointError, said):
                _checkpoint.read_state(_checkpoint.Files({"state.msgpack": memoryview(_msgpack.pack(tree))}))

    def test_errors_can_be_pickled(self):
        self.assertEqual(str(pickle.loads(pickle.dumps(NotSerialisable("x")))), "x")


if __name__ == "__main__":
    unittest.main()
