"""Outside Shoal: the same calls write files, and a program goes on in the directory of an earlier run."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

from support import place

import shoal
from shoal import CheckpointError, ShoalError, _checkpoint, _directories


class OneRank(unittest.TestCase):
    def test_a_program_sees_how_far_it_may_go(self):
        with place():
            self.assertIsNone(shoal.init().until(5))
        with place(SHOAL_RUNGS="15 62 1000"):
            run = shoal.init()
            ends = [run.until(step) for step in (0, 14, 14.5, 15, 62, 999.5, 1000, 2000)]
            self.assertEqual(ends, [15, 15, 15, 62, 1000, 1000, 1000, 1000])
        for bad in ("x", "0", "5 5", "7 3", "1.5"):
            with place(SHOAL_RUNGS=bad), self.assertRaisesRegex(ShoalError, "SHOAL_RUNGS"):
                shoal.init()

    def test_an_unused_run_leaves_no_files(self):
        with place() as path:
            run = shoal.init()
            self.assertIs(shoal.init(), run)
            self.assertEqual((run.rank, run.size, run.in_shoal, run.load(), run.should_stop()), (0, 1, False, None, False))
            run.close()
            self.assertEqual(list(path.iterdir()), [])

    def test_starting_imports_only_what_a_start_needs(self):
        heavy = "asyncio dataclasses hashlib inspect numpy shutil subprocess tempfile torch urllib"
        code = f"import sys, shoal; shoal.init(); print([name for name in '{heavy}'.split() if name in sys.modules])"
        with place(PYTHONPATH=str(Path(shoal.__file__).parents[1])):
            done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=False)
        self.assertEqual(done.stdout.strip(), "[]", done.stderr)

    def test_a_program_is_told_where_its_files_go_and_goes_on_there(self):
        code = (
            "import shoal\n"
            "run = shoal.init()\n"
            "shoal.init()\n"
            "state = run.load() or {'n': 0}\n"
            "for step in range(run.step, run.step + 3):\n"
            "    state['n'] += 1\n"
            "    run.report({'n': state['n']}, step=step + 1)\n"
            "    run.save(state, step=step + 1)\n"
        )

        def start(**environment):
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
            done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
            return done.stderr

        with place() as path:
            said = start()
            (directory,) = (path / "shoal-runs").iterdir()
            here = directory.relative_to(path)
            first = f"shoal: this program runs outside Shoal; metrics and checkpoints go to {here}"
            self.assertEqual(said, f"{first}\n")
            self.assertEqual(start(SHOAL_RUN_DIR=str(here)), f"{first}, and load() gives its checkpoint of step 3\n")
            points = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
            self.assertEqual([(point["step"], point["metrics"]["n"]) for point in points], [(n, n) for n in range(1, 7)])
            self.assertEqual(start(RANK="1", WORLD_SIZE="2"), "")

    def test_a_run_shows_what_it_is(self):
        with place(SHOAL_RUN_DIR="here"), shoal.init() as run:
            self.assertEqual(repr(run), "<Run outside Shoal in here: rank 0 of 1>")

    def test_reports_are_json_lines(self):
        with place(SHOAL_RUN_DIR="here") as path:
            run = shoal.init()
            run.report({"loss": 1, "a": {"b": 2}})
            run.report({"loss": 0.5})
            run.log({"accuracy": 1}, step=7, group="validation")
            with self.assertRaises(TypeError):
                run.report({"loss": "x"})
            lines = [json.loads(line) for line in (path / "here" / "metrics.jsonl").read_text().splitlines()]
        found = [(line["group"], line["step"], line["metrics"]) for line in lines]
        self.assertEqual(found, [("training", 1, {"loss": 1.0, "a/b": 2.0}), ("training", 2, {"loss": 0.5}),
                                 ("validation", 7, {"accuracy": 1.0})])  # fmt: skip

    def steps_of_reports(self, path):
        lines = [json.loads(line) for line in (path / "here" / "metrics.jsonl").read_text().splitlines()]
        return [(line["group"], line["step"]) for line in lines]

    def test_reports_without_a_step_go_on_where_the_checkpoint_was_saved(self):
        with place(SHOAL_RUN_DIR="here") as path:
            with shoal.init() as run:
                for _ in range(3):
                    run.report({"loss": 1})
                run.report({"accuracy": 1}, group="validation")
                run.save({"n": 3}, step=300)
                run.report({"loss": 1})  # behind the checkpoint: it is made anew
            first = self.steps_of_reports(path)
            with shoal.init() as again:
                again.load()
                for group in ("training", "validation", "test"):
                    again.report({"x": 1}, group=group)
            self.assertEqual(first, [("training", 1), ("training", 2), ("training", 3), ("validation", 1), ("training", 4)])
            self.assertEqual(self.steps_of_reports(path)[5:], [("training", 4), ("validation", 2), ("test", 1)])

    def test_reports_without_a_step_go_on_behind_a_checkpoint_that_does_not_tell_of_them(self):
        with place(SHOAL_RUN_DIR="here") as path:
            with shoal.init() as run:
                run.save({"n": 3}, step=300)
                with run.checkpoint_dir(300):
                    pass
            saved = _checkpoint.Saved({"n": 3}, 300, None)  # as an older version of the package saved it
            with shoal.init() as loads, mock.patch.object(_checkpoint, "read_state", lambda *_: saved):
                loads.load()
                loads.report({"x": 1})
            with shoal.init() as restores:
                self.assertTrue(restores.restore_dir.endswith("step-300"))
                restores.report({"x": 1})
            with shoal.init() as anew:
                anew.report({"x": 1})
                with anew.checkpoint_dir():  # its name is a time, not a step
                    pass
            with shoal.init() as restores:
                self.assertNotIn("step-300", restores.restore_dir)
                restores.report({"x": 1})
            self.assertEqual([step for _, step in self.steps_of_reports(path)], [301, 301, 1, 1])

    def test_numbers_that_are_not_finite_are_words(self):
        def refuse(word):
            raise ValueError(f"{word} is no JSON")

        with place(SHOAL_RUN_DIR="here") as path, shoal.init() as run:
            run.report({"a": float("nan"), "b": float("-inf"), "c": 0.5})
            line = json.loads((path / "here" / "metrics.jsonl").read_text(), parse_constant=refuse)
        self.assertEqual(line["metrics"], {"a": "NaN", "b": "-Infinity", "c": 0.5})

    def test_metrics_that_cannot_be_written_are_a_sentence(self):
        with place(SHOAL_RUN_DIR="here") as path, shoal.init() as run:
            (path / "here").write_text("a file")
            with self.assertRaisesRegex(ShoalError, "step 4 cannot be written to here/metrics.jsonl: "):
                run.report({"a": 1}, step=4)

    def test_a_program_goes_on_in_the_directory_of_an_earlier_run(self):
        with place(SHOAL_RUN_DIR="here") as path:
            with shoal.init() as run:
                for step in (1, 2, 10):
                    run.save({"n": step, "m": (1, 2)}, step=step)
                self.assertEqual(sorted(os.listdir(path / "here" / "checkpoints")), ["10", "2"])
            with shoal.init() as again:
                self.assertEqual(again.load(like={"n": 0, "m": (0, 0)}), {"n": 10, "m": (1, 2)})
                self.assertEqual(again.step, 10)
                said = r"of step 10 .*: state\['other'\] is not in the checkpoint\. Move it out of here/checkpoints "
                with self.assertRaisesRegex(CheckpointError, said):
                    again.load(like={"n": 0, "m": (0, 0), "other": 1})

    def check_steps(self, kinds, refused):
        """Steps of these kinds are as those of an int."""
        with place(SHOAL_RUN_DIR="here") as path, shoal.init() as run:
            for i, kind in enumerate(kinds):
                run.report({"loss": 1}, step=kind(i))
                run.save({"n": i}, step=kind(i))
                self.assertTrue((path / "here" / "checkpoints" / str(i)).is_dir())
            with run.checkpoint_dir(kinds[-1](7)):
                pass
            self.assertTrue((path / "here" / "checkpoints" / "step-7").is_dir())
            run.report({"loss": 1})
            lines = [json.loads(line)["step"] for line in (path / "here" / "metrics.jsonl").read_text().splitlines()]
            self.assertEqual(lines, list(range(len(kinds) + 1)))
            for wrong in refused:
                for call in (run.save, run.report):
                    with self.assertRaisesRegex(ValueError, "^step is .*; it has to be a whole number from 0"):
                        call({}, step=wrong)

    def test_steps_are_whole_numbers_of_any_kind(self):
        class Whole:
            def __init__(self, value):
                self.value = value

            def __index__(self):
                return self.value

        self.check_steps([int, Whole], [True, 1.0, "1", -1, 1 << 64, Whole(-1)])

    @unittest.skipIf(importlib.util.find_spec("numpy") is None, "NumPy is not installed")
    def test_steps_may_be_of_numpy(self):
        import numpy

        self.check_steps([numpy.int64, numpy.uint8, numpy.array], [numpy.bool_(True), numpy.float64(1), numpy.array([1, 2])])

    @unittest.skipIf(importlib.util.find_spec("torch") is None, "PyTorch is not installed")
    def test_steps_may_be_of_pytorch(self):
        import torch

        self.check_steps([torch.tensor], [torch.tensor(True), torch.tensor(1.0), torch.tensor([1, 2])])

    def test_directories_of_an_earlier_run_are_found(self):
        with place(SHOAL_RUN_DIR="here"):
            with shoal.init() as run:
                self.assertIsNone(run.restore_dir)
                for step in (9, 10):
                    with run.checkpoint_dir(step) as path:
                        Path(path, "model").write_text(str(step))
                with self.assertRaises(ZeroDivisionError), run.checkpoint_dir(11):
                    raise ZeroDivisionError
                self.assertIsNone(run.restore_dir)
            with shoal.init() as again:
                self.assertEqual(Path(again.restore_dir, "model").read_text(), "10")

    def test_the_newest_two_directories_stay_and_the_one_that_was_just_made(self):
        with place(SHOAL_RUN_DIR="here") as path, shoal.init() as run:
            kept, root = [], path / "here" / "checkpoints"
            for step in (1, 2, 10, 5, 11):
                with run.checkpoint_dir(step) as made:
                    Path(made, "model").write_text("new")
                    before = sorted(os.listdir(root)) if root.exists() else []
                kept.append(sorted(os.listdir(root), key=lambda name: int(name[5:])))
                self.assertLessEqual(set(before) - set(kept[-1]), {"step-1", "step-2", "step-5"})
            two = [["step-1"], ["step-1", "step-2"], ["step-2", "step-10"], ["step-5", "step-10"], ["step-10", "step-11"]]
            self.assertEqual(kept, two)
            with self.assertRaises(ZeroDivisionError), run.checkpoint_dir(12):
                raise ZeroDivisionError
            self.assertEqual(sorted(os.listdir(root)), ["step-10", "step-11"])
            run.close()
            with shoal.init() as again:  # its steps go back: what it was restored from stays until a newer one is there
                for step in (3, 4, 12):
                    with again.checkpoint_dir(step):
                        pass
                    self.assertTrue(os.path.isdir(again.restore_dir))
            self.assertEqual(sorted(os.listdir(root)), ["step-11", "step-12"])

    def test_a_directory_that_is_made_again_replaces_the_old_one(self):
        with place(SHOAL_RUN_DIR="here") as path, shoal.init() as run:
            for name in ("old", "new"):
                with run.checkpoint_dir(3) as made:
                    Path(made, name).write_text(name)
            self.assertEqual(os.listdir(path / "here" / "checkpoints" / "step-3"), ["new"])
            with self.assertRaisesRegex(CheckpointError, "step-3 cannot be put into its place"), run.checkpoint_dir(3) as made:
                shutil.rmtree(made)
            self.assertEqual(os.listdir(path / "here" / "checkpoints" / "step-3"), ["new"])
            self.assertEqual(os.listdir(path / "here"), ["checkpoints"])

    def test_what_was_just_saved_is_never_removed(self):
        with place(SHOAL_RUN_DIR="here") as path, shoal.init() as run:
            for step in (100, 200, 5):
                run.save({"n": step}, step=step)
            self.assertIn("5", os.listdir(path / "here" / "checkpoints"))

    def test_old_directories_are_removed_beside_names_that_are_no_steps(self):
        with place() as path:
            for name in ("step-1", "step-2", "step-3", "step-\u00b2", "step-"):
                (path / name).mkdir()
            _directories.remove_old(str(path), 3)
            self.assertEqual(sorted(os.listdir(path)), ["step-", "step-2", "step-3", "step-\u00b2"])

    def test_what_a_killed_save_left_is_not_in_the_next(self):
        with place(SHOAL_RUN_DIR="here") as path, shoal.init() as run:
            left = path / "here" / "checkpoints" / "3.part"
            left.mkdir(parents=True)
            (left / "old.safetensors").write_bytes(b"x")
            (left.parent / "²").mkdir()
            run.save({"n": 1}, step=3)
            self.assertEqual(os.listdir(left.parent / "3"), ["state.msgpack"])

    def test_a_place_that_cannot_be_written_is_named(self):
        with place(SHOAL_RUN_DIR="here") as path, shoal.init() as run:
            (path / "here").write_text("a file")
            with self.assertRaisesRegex(CheckpointError, "step 3 cannot be written to here/checkpoints/3: Not a directory"):
                run.save({"n": 1}, step=3)
            with self.assertRaisesRegex(ShoalError, "here/outputs cannot be made: Not a directory; set SHOAL_RUN_DIR"):
                _ = run.output_dir
            os.remove("here")
            Path("here/checkpoints").mkdir(parents=True)
            with self.assertRaisesRegex(CheckpointError, "here/checkpoints/step-1 cannot be put into its place"):
                with run.checkpoint_dir(1) as made:
                    shutil.rmtree(made)

    def test_a_checkpoint_is_on_the_disk_before_it_has_its_name(self):
        done = []
        real_sync, real_rename = os.fsync, os.rename

        def sync(fd):
            done.append(f"sync {os.path.basename(os.readlink(f'/proc/self/fd/{fd}'))}")
            real_sync(fd)

        def rename(old, new):
            done.append("rename")
            real_rename(old, new)

        with place(SHOAL_RUN_DIR="here"), shoal.init() as run:
            with mock.patch.object(os, "fsync", sync), mock.patch.object(os, "rename", rename):
                run.save({"n": 1}, step=3)
        self.assertEqual(done, ["sync state.msgpack", "sync 3.part", "rename", "sync checkpoints"])

    def test_no_memory_for_a_checkpoint_is_a_sentence(self):
        with place(SHOAL_RUN_DIR="here") as path, shoal.init() as run:
            with mock.patch("shoal._checkpoint.Layout.write", side_effect=MemoryError):
                with self.assertRaisesRegex(CheckpointError, "step 3 is not saved, for no memory is left"):
                    run.save({"n": 1}, step=3)
            self.assertFalse((path / "here").exists())
            run.save({"n": 1}, step=3)
            self.assertEqual(run.load(), {"n": 1})

    def test_a_checkpoint_that_cannot_be_read_is_named(self):
        with place(SHOAL_RUN_DIR="here") as path, shoal.init() as run:
            run.save({"n": 1}, step=3)
            (path / "here/checkpoints/3/inner").mkdir()
            with self.assertRaisesRegex(CheckpointError, "The checkpoint here/checkpoints/3 cannot be read: Is a directory"):
                run.load()
            (path / "here/checkpoints").rename(path / "away")
            (path / "here/checkpoints").write_text("a file")
            with self.assertRaisesRegex(CheckpointError, "The checkpoint here/checkpoints cannot be read: Not a directory"):
                run.load()

    def test_what_to_do_about_a_damaged_checkpoint_is_said(self):
        with place(SHOAL_RUN_DIR="here") as path, shoal.init() as run:
            for step in (3, 4):
                run.save({"n": step}, step=step)
            (path / "here/checkpoints/4/state.msgpack").write_bytes(b"\x81")
            with self.assertRaisesRegex(
                CheckpointError, r"^state\.msgpack .* cannot be read: .*\. Move it out of here/checkpoints"
            ):
                run.load()
            (path / "here/checkpoints/4").rename(path / "away")
            self.assertEqual(run.load(), {"n": 3})

    def test_hyperparameters(self):
        with place(SHOAL_HPARAMS='{"lr": 0.5, "net": {"width": 3}}'):
            run = shoal.init()
            self.assertEqual((run.hparams["lr"], run.hparam("net.width"), run.hparam("x", 1)), (0.5, 3, 1))
            with self.assertRaises(TypeError):
                run.hparams["lr"] = 1
            for missing in (lambda: run.hparam("x"), lambda: run.hparam("x.y"), lambda: run.hparams["x"]):
                with self.assertRaisesRegex(KeyError, "^There is no hyperparameter 'x.*'; this trial has: lr, net"):
                    missing()
            with self.assertRaisesRegex(KeyError, r"""this trial has: width\. .* by SHOAL_HPARAMS='\{"lr": 0\.1\}'\.$"""):
                _ = run.hparams["net"]["x"]
            self.assertIsNone(run.hparams.get("x"))

    def test_a_child_made_by_fork_is_refused(self):
        with place(SHOAL_RUN_DIR="here"), shoal.init() as run:
            reader, writer = os.pipe()
            child = os.fork()
            if child == 0:
                said = []
                again = shoal.init()
                for call in (lambda: again.report({"a": 1}), lambda: again.save({}, 1), again.should_stop, again.barrier):
                    try:
                        call()
                    except ShoalError as error:
                        said.append("in a child process" in str(error))
                os.write(writer, json.dumps(said).encode())
                os._exit(0)
            os.waitpid(child, 0)
            self.assertEqual(json.loads(os.read(reader, 1000)), [True] * 4)
            os.close(reader)
            os.close(writer)
            run.report({"a": 1})

    def test_a_closed_run_says_so(self):
        with place():
            run = shoal.init()
            run.close()
            with self.assertRaisesRegex(ShoalError, "after run.close"):
                run.report({"a": 1})
            self.assertIsNot(shoal.init(), run)

    def test_values_of_one_rank(self):
        with place(), shoal.init() as run:
            self.assertEqual((run.all_gather((1, {2})), run.broadcast([1])), ([(1, {2})], [1]))
            with self.assertRaisesRegex(TypeError, "plain values only"):
                run.all_gather(object())


class Torchrun(unittest.TestCase):
    def test_only_rank_0_writes(self):
        with place(RANK="1", WORLD_SIZE="2", LOCAL_RANK="1", SHOAL_RUN_DIR="here") as path, shoal.init() as run:
            self.assertEqual((run.rank, run.size, run.local_rank, list(run.shard(5))), (1, 2, 1, [2, 3, 4]))
            run.report({"a": 1})
            run.save({"n": 1}, step=1)
            self.assertEqual(list(path.iterdir()), [])

    def test_meeting_is_for_torch_distributed(self):
        with place(RANK="0", WORLD_SIZE="2"), shoal.init() as run, self.assertRaisesRegex(ShoalError, r"torch\.distributed"):
            run.barrier()


if __name__ == "__main__":
    unittest.main()
