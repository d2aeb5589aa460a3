"""Checkpoints of several parts: run.save(sharded=True), and sharded state by torch.distributed.checkpoint."""

import unittest

from support import FakeLink, inside, ranks, read

import shoal
from shoal import CheckpointError, NotSerialisable

try:
    import torch

    from shoal import torch_checkpoint
except ImportError:  # no PyTorch, or one before 2.2
    torch = None


class Saves(unittest.TestCase):
    def test_each_rank_saves_a_part_of_one_checkpoint(self):
        def program(run):
            run.save({"mine": [run.rank] * 3}, step=7, sharded=True)
            run.save({"mine": run.rank}, step=7, sharded=True)
            return run._link.parts_saved, run._link.saved

        results = ranks(program, 3)
        for rank, (parts, saved) in enumerate(results):
            self.assertEqual([(part.part, part.parts) for part in parts], [(rank, 3)] * 2)
            self.assertEqual([step for step, _ in saved], [7, 7])
            self.assertEqual(read(bytearray(saved[0][1])), {"mine": [rank] * 3})
        numbers = {tuple(part.save for part in parts) for parts, _ in results}
        self.assertEqual(len(numbers), 1)  # the ranks agree
        self.assertEqual(len(set(*numbers)), 2)  # and each save has a number of its own

    def test_what_one_rank_cannot_save_no_rank_saves(self):
        def program(run):
            try:
                run.save({"x": object() if run.rank == 1 else 1}, step=3, sharded=True)
            except CheckpointError as error:
                return str(error), run._link.saved
            return None

        for said, saved in ranks(program, 3):
            self.assertRegex(said, r"step 3 is not saved; on rank 1: .*state\['x'\]")
            self.assertEqual(saved, [])

    def test_parts_of_different_steps_are_refused(self):
        def program(run):
            try:
                run.save({}, step=10 + run.rank, sharded=True)
            except CheckpointError as error:
                return str(error)
            return None

        first, second = ranks(program)
        self.assertIn("Rank 1 saves step 11, and rank 0 step 10", first)
        self.assertIn("Rank 0 saves step 10, and rank 1 step 11", second)

    def test_one_rank_outside_shoal_saves_a_whole_one(self):
        with inside() as link:
            run = shoal.init()
            run.save({"a": 1}, step=2, sharded=True)
            self.assertEqual([(part.part, part.parts) for part in link.parts_saved], [(0, 1)])


def loaded(size, *states):
    """A program whose checkpoint has these parts, on `size` ranks."""

    def load(run, **options):
        def once():
            try:
                return run.load(**options)
            except CheckpointError as error:
                return str(error)

        run._link.loadable = parts
        return once()

    def saved(run):
        run.save(states[run.rank], step=5, sharded=True)
        return run._link.saved[0][1]

    parts = ranks(saved, len(states))
    return lambda **options: ranks(lambda run: load(run, **options), size)


class Loads(unittest.TestCase):
    def test_each_rank_gets_its_own_part_again(self):
        self.assertEqual(loaded(2, {"r": 0}, {"r": 1})(), [{"r": 0}, {"r": 1}])

    def test_other_ranks_name_the_part(self):
        load = loaded(3, {"r": 0}, {"r": 1})
        for said in load():
            self.assertRegex(
                said, r"has 2 parts, .*this trial has 3 ranks; load them one by one, run\.load\(part=0\) to run\.load\(part=1\)"
            )
        self.assertEqual(load(part=1), [{"r": 1}] * 3)
        for said in load(part=2):
            self.assertIn("There is no part 2; the checkpoint has 2 parts", said)

    def test_a_whole_checkpoint_has_no_parts(self):
        with inside():
            run = shoal.init()
            self.assertEqual(run.parts, 0)
            self.assertIsNone(run.load())
            with self.assertRaisesRegex(CheckpointError, "There is no part 1"):
                run.load(part=1)


@unittest.skipIf(torch is None, "there is no PyTorch with torch.distributed.checkpoint")
class Torch(unittest.TestCase):
    """One rank; several, with FSDP, are in tests/e2e/case_sharded.py."""

    state = (
        {
            "model": {"w": torch.arange(6.0).reshape(2, 3), "half": torch.ones(2, dtype=torch.bfloat16), "n": torch.tensor(3)},
            "step": 4,
            "groups": [{"lr": 0.1}],
        }
        if torch
        else {}
    )

    def test_what_was_saved_is_loaded(self):
        with inside() as link:
            shoal.init().report({"loss": 1.0}, step=9)
            torch_checkpoint.save(self.state, step=9)
            self.assertEqual([(part.part, part.parts) for part in link.parts_saved], [(0, 2), (1, 2)])
            self.assertEqual(len({part.save for part in link.parts_saved}), 1)
            parts = [saved for _, saved in link.saved]
        link = FakeLink()
        link.loadable = parts
        with inside(link):
            run = shoal.init()
            state = {
                "model": {key: torch.zeros_like(value) for key, value in self.state["model"].items()},
                "step": 0,
                "groups": [{"lr": 0.0}],
            }
            self.assertEqual(torch_checkpoint.load(state), 9)
            self.assertEqual((run.step, run._steps), (9, {"training": 9}))
            for key, value in self.state["model"].items():
                self.assertTrue(torch.equal(state["model"][key], value), key)
            self.assertEqual((state["step"], state["groups"]), (4, [{"lr": 0.1}]))

    def test_only_the_bytes_that_are_wanted_are_read(self):
        from torch.distributed.checkpoint.metadata import MetadataIndex
        from torch.distributed.checkpoint.planner import LoadItemType, ReadItem

        wide, tall = torch.arange(3 << 20).reshape(-1, 1024), torch.arange(1 << 20, dtype=torch.float32)
        with inside() as link:
            shoal.init()
            torch_checkpoint.save({"wide": wide, "tall": tall, "named": "x" * (2 << 20), "small": torch.ones(3)}, step=1)
            parts = [saved for _, saved in link.saved]
        link = FakeLink()
        link.loadable = parts

        def item(name, offsets, lengths):
            index = MetadataIndex(name, torch.Size([0] * len(lengths)))
            return ReadItem(
                LoadItemType.TENSOR, index, torch.Size([0] * len(lengths)), index, torch.Size(offsets), torch.Size(lengths)
            )

        with inside(link):
            reader = torch_checkpoint.StorageReader(run=shoal.init())
            wanted = [item("wide", (1000, 0), (24, 1024)), item("tall", (7,), (10,)), item("small", (0,), (3,))]
            state = reader._needed(0, wanted)
            self.assertTrue(torch.equal(torch_checkpoint._slice(state, wanted[0]), wide[1000:1024]))
            self.assertTrue(torch.equal(torch_checkpoint._slice(state, wanted[1]), tall[7:17]))
            self.assertTrue(torch.equal(torch_checkpoint._slice(state, wanted[2]), torch.ones(3)))
            self.assertFalse(state["tensors"]["wide"][:900].any())  # not read
            _, ranges = link.ranges_loaded[-1]
            self.assertLess(sum(count for _, count in ranges), 4 << 20)
            self.assertGreater(len(parts[0]), 28 << 20)
            link.ranges_loaded.clear()
            reader._needed(0, [item("tall", (0,), (1,))])
            self.assertEqual({part for part, _ in link.ranges_loaded}, {0})

    def test_ranges_are_few(self):
        near = [(at, at + 8) for at in range(0, 1 << 20, 64)]
        self.assertEqual(torch_checkpoint._merged(near), [(0, (1 << 20) - 56)])
        far = torch_checkpoint._merged([(at << 22, (at << 22) + 8) for at in range(2000)])
        self.assertLessEqual(len(far), 512)
        self.assertEqual((far[0][0], sum(far[-1])), (0, (1999 << 22) + 8))

    def test_without_a_checkpoint_nothing_changes(self):
        with inside():
            state = {"w": torch.ones(2)}
            self.assertIsNone(torch_checkpoint.load(state))
            self.assertTrue(torch.equal(state["w"], torch.ones(2)))

    def test_parts_of_run_save_are_named(self):
        with inside() as link:
            shoal.init().save({"w": torch.ones(2)}, step=1, sharded=True)
            parts = [link.saved[0][1]]
        link = FakeLink()
        link.loadable = parts
        with inside(link), self.assertRaisesRegex(BaseException, r"run\.save\(sharded=True\) wrote; load them with run\.load"):
            torch_checkpoint.load({"w": torch.zeros(2)})

    def test_outside_shoal_torchs_own_writer_is_named(self):
        from support import place

        with place(), self.assertRaisesRegex(BaseException, "FileSystemWriter"):
            torch_checkpoint.save({"w": torch.ones(2)}, step=1)

    def test_data_of_a_planner_of_ones_own_are_refused(self):
        from torch.distributed.checkpoint.metadata import Metadata

        with self.assertRaisesRegex(NotSerialisable, "use DefaultSavePlanner"):
            torch_checkpoint._pack(Metadata({}, planner_data=object()))


if __name__ == "__main__":
    unittest.main()
