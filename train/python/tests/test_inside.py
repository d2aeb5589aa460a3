"""Inside Shoal, with a link to no daemon: child processes, what ranks exchange, and saves that fail."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
import types
import unittest
from unittest import mock

from support import FakeLink, blob, inside, ranks, read

import shoal
from shoal import CheckpointError, GroupBroken, NotSerialisable, ShoalError, _checkpoint, _daemon, _library, _msgpack, _run

try:
    import numpy
except ImportError:
    numpy = None


def wait_until(condition):
    until = time.monotonic() + 60
    while not condition() and time.monotonic() < until:
        time.sleep(0.01)


class ChildProcesses(unittest.TestCase):
    """A second connection of a rank would cut off the first, and with it the reports on their way."""

    def in_child(self, action):
        """What ``action()`` gives in a child made by fork."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            signal.alarm(30)  # a child that waits for a lock of the parent fails the test
            said = "it raised"
            with contextlib.suppress(BaseException):
                said = action()
            os.write(writer, json.dumps(said).encode())
            os._exit(0)
        os.close(writer)
        with open(reader, "rb") as file:
            said = file.read()
        os.waitpid(child, 0)
        return json.loads(said or '"it was killed"')

    def refusals(self, run):
        def checkpoint():
            with run.checkpoint_dir(1):
                pass

        said = {}
        for call in (
            lambda: run.report({"a": 1}), lambda: run.save({}, 1), run.load, run.flush, run.should_stop, checkpoint,
            run.barrier, lambda: run.all_gather(1), lambda: run.broadcast(1),
        ):  # fmt: skip
            try:
                call()
                said[repr(call)] = "not refused"
            except ShoalError as error:
                said[repr(call)] = str(error)
        return list(said.values())

    def test_a_child_made_by_fork_reads_and_is_refused_the_rest(self):
        with inside() as link:
            run = shoal.init()
            run.report({"a": 1}, step=0)
            held, release = threading.Event(), threading.Event()

            def hold():  # as the thread that sends reports may at the moment of the fork
                with link.lock:
                    held.set()
                    release.wait(60)

            holder = threading.Thread(target=hold)
            holder.start()
            held.wait(60)

            def child():
                again = shoal.init()
                read = [again.rank, again.experiment, again.trial, again.seed, again.in_shoal, again.durable_step]
                return [again is run, read, self.refusals(again)]

            answer = self.in_child(child)
            release.set()
            holder.join()
            self.assertEqual(len(answer), 3, answer)
            is_same, read, said = answer
            self.assertTrue(is_same)
            self.assertEqual(read, [0, "0123456789abcdef", 3, 7, True, 5])
            self.assertEqual(len(said), 9)
            for sentence in said:
                self.assertRegex(sentence, r"^run\.\w+\(\) was called in a child process; call it in process \d+, ")
            run.report({"a": 2}, step=1)
            run.close()
            self.assertEqual(link.reported.count(b"training"), 2)

    def test_a_child_made_by_fork_takes_nothing_from_the_connection(self):
        link = _library.Link.__new__(_library.Link)
        link._context, link._library = object(), mock.Mock(shoal_durable_step=mock.Mock(return_value=5))
        link.forget_threads()
        self.assertEqual(link.durable_step(), 5)
        link._library.shoal_pump.assert_not_called()

    def test_a_child_started_anew_does_not_connect(self):
        code = (
            "import json, shoal, test_inside\n"
            "run = shoal.init()\n"
            "print(json.dumps([[run.rank, run.size, run.seed, run.in_shoal], test_inside.ChildProcesses().refusals(run)]))"
        )
        with inside(SHOAL_RANK="1", SHOAL_SIZE="2", SHOAL_SEED="9", PYTHONPATH=os.pathsep.join(sys.path)):
            shoal.init()
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
            read, said = json.loads(done.stdout)
            self.assertEqual(read, [1, 2, 9, True])
            self.assertEqual(len([sentence for sentence in said if "in a child process" in sentence]), 9)
            shoal.init().close()
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
            self.assertRegex(done.stderr, r"shoal\._errors\.(ShoalError|DaemonLost): ")


class Steps(unittest.TestCase):
    """What libshoal is told of where the time goes."""

    def test_each_batch_is_a_step_and_a_wait_for_data(self):
        with inside() as link:
            run = shoal.init()
            for number, batch in enumerate(run.batches([5, 6, 7]), 1):
                run.report({"loss": batch}, step=number)
            self.assertEqual(link.steps, [0, 1, 2, 3])
            self.assertEqual(link.spans, [_library.DATA] * 3)
            self.assertEqual(list(run.batches(iter([8]))), [8])
            self.assertEqual(link.steps, [0, 1, 2, 3, 3, 4])

    def test_without_batches_reports_of_later_steps_end_steps(self):
        with inside() as link:
            run = shoal.init()
            for step in (1, 2, 2, 1, 5):
                run.report({"loss": 1.0}, step=step)
            self.assertEqual(link.steps, [1, 2, 5])


class Showing(unittest.TestCase):
    def test_a_run_shows_its_experiment_trial_and_rank(self):
        with inside(FakeLink(1, 2)):
            self.assertEqual(repr(shoal.init()), "<Run of experiment 0123456789abcdef, trial 3, attempt 2: rank 1 of 2>")

    def test_a_missing_hyperparameter_names_those_of_the_trial(self):
        with inside(SHOAL_HPARAMS='{"lr": 0.5}'):
            with self.assertRaisesRegex(KeyError, r"^There is no hyperparameter 'x'; this trial has: lr\.$"):
                _ = shoal.init().hparams["x"]


class Objective(unittest.TestCase):
    def test_a_number_alone_is_the_metric_that_trials_are_compared_by(self):
        asked = []

        class Daemon:
            def __init__(self, directory):
                asked.append(directory)

            def ask(self, op, experiment):
                asked.append((op, experiment))
                return {"experiment": {"metric": "accuracy"}}

        with inside() as link, mock.patch.object(_daemon, "Daemon", Daemon), shoal.init() as run:
            run.report(0.5, 3)
            run.report(numpy_like(0.25), 4, "test")
            run.report({"accuracy": 1}, 5)
            run.flush()
            for wrong in ([0.5], "0.5", None):
                with self.assertRaisesRegex(TypeError, "^metrics is .*; it has to be a dict of names to numbers"):
                    run.report(wrong, 6)
            reports = bytes(link.reported)
        self.assertEqual(asked, ["/", ("show", FakeLink.experiment)])
        found, offset = [], 0
        while offset < len(reports):
            report, count = _msgpack.unpack(memoryview(reports)[offset:])
            found.append(report)
            offset += count
        expected = [("validation", 3, 0.5), ("test", 4, 0.25), ("training", 5, 1.0)]
        self.assertEqual(found, [[group, step, {"accuracy": value}] for group, step, value in expected])

    def test_it_is_pruned_when_it_is_asked_to_stop(self):
        with inside() as link, shoal.init() as run:
            self.assertFalse(run.should_prune())
            link.stop = True
            self.assertTrue(run.should_prune())


def numpy_like(value):
    return types.SimpleNamespace(item=lambda: value)


class Directories(unittest.TestCase):
    def test_restore_dir_is_the_newest_directory_that_checkpoint_dir_wrote(self):
        with inside() as link:
            self.assertIsNone(shoal.init().restore_dir)
            os.makedirs("back/step-9")
            os.makedirs("back/step-10")
            os.environ["SHOAL_RESTORE_DIR"] = "back"
            self.assertEqual(shoal.init().restore_dir, os.path.join("back", "step-10"))
            self.assertFalse(link.closed)

    def test_restore_dir_has_what_the_program_named_otherwise(self):
        with inside(SHOAL_RESTORE_DIR="back"):
            os.makedirs("back/epoch-3")
            self.assertEqual(shoal.init().restore_dir, "back")

    def test_a_variable_that_is_missing_is_named(self):
        with inside():
            run = shoal.init()
            for variable, use in (
                ("SHOAL_OUTPUT_DIR", lambda: run.output_dir),
                ("SHOAL_CHECKPOINT_DIR", lambda: run.checkpoint_dir(1).__enter__()),
            ):
                with self.assertRaisesRegex(ShoalError, f"^{variable} is not set, though .* whole environment\\.$"):
                    use()


class Meeting(unittest.TestCase):
    def test_a_call_of_all_ranks_makes_no_thread(self):
        started = []
        together = threading.Barrier(2)

        def program(run):
            together.wait(60)  # both threads of this test have begun
            watch = mock.patch.object(threading.Thread, "start", lambda *thread: started.append(thread))
            with watch if run.rank == 0 else contextlib.nullcontext():
                together.wait(60)
                answers = [run.should_stop() for _ in range(50)]
                run.barrier()
                together.wait(60)
            return answers

        self.assertEqual(ranks(program), [[False] * 50] * 2)
        self.assertEqual(started, [])

    def test_values_of_all_ranks_meet(self):
        def program(run):
            run._link.stop = run.rank == 2
            return [
                run.should_stop(),
                run.stop_reason,
                run.all_gather({"rank": run.rank, "text": "x" * run.rank}),
                run.broadcast("y" * run.rank, root=2),
                run.barrier(),
            ]

        wanted = [True, "pause", [{"rank": rank, "text": "x" * rank} for rank in range(3)], "yy", None]
        self.assertEqual(ranks(program, 3), [wanted] * 3)

    def test_different_calls_are_named_on_all_ranks(self):
        for mine, theirs, said in (
            (lambda run: run.should_stop(), lambda run: run.barrier(), r"rank 0 run\.should_stop\(\), rank 1 run\.barrier\(\)"),
            (lambda run: run.all_gather("long" * 99), lambda run: run.should_stop(), r"rank 1 run\.should_stop\(\)"),
            (lambda run: run.broadcast(1), lambda run: run.broadcast(1, root=1), r"rank 1 run\.broadcast\(\) of rank 1"),
        ):
            for error in ranks(lambda run, calls=(mine, theirs): calls[run.rank](run)):
                self.assertIsInstance(error, GroupBroken)
                self.assertRegex(str(error), said)
                self.assertIn("Every rank has to call", str(error))

    def test_a_lost_rank_is_no_matter_of_calls(self):
        link = object.__new__(_library.Link)
        link._sentence = lambda: "it is so"
        for code, said in (
            (_library.TIMEOUT, r"so\. Every rank has to call run\.barrier\(\) as often as the others; reports"),
            (_library.MALFORMED, "Every rank has to call"),
            (
                _library.CLOSED,
                r"so\. Leave, and Shoal begins the next attempt from the newest checkpoint; reports and saves are",
            ),
            (_library.IO, "Leave, and Shoal"),
        ):
            with inside(FakeLink(0, 2)) as fake:
                fake.all_gather = lambda mine, doing, code=code: link._check(code, doing, GroupBroken)
                with self.assertRaisesRegex(GroupBroken, said):
                    shoal.init().barrier()

    def test_a_long_wait_for_other_ranks_is_told(self):
        said = io.StringIO()

        def program(run):
            if run.rank == 1:
                wait_until(said.getvalue)
            return run.should_stop()

        with mock.patch.object(_run, "TOLD_SECONDS", 0.0), contextlib.redirect_stderr(said):
            self.assertEqual(ranks(program), [False, False])
        self.assertRegex(said.getvalue(), r"shoal: rank 0 has waited 0 s in run\.should_stop\(\) for other ranks")

    def test_reports_are_on_their_way_before_a_wait(self):
        def program(run):
            run.report({"a": 1}, step=run.rank)
            run.barrier()
            return bytes(run._link.reported)

        for reported in ranks(program):
            self.assertIn(b"training", reported)


class SavesOfAllRanks(unittest.TestCase):
    def check(self, save, said):
        """All ranks raise the same error, and go on from there."""

        def program(run):
            save(run)
            try:
                run.should_stop()
            except CheckpointError as error:
                run.save({"n": 1}, step=9)
                run.barrier()
                return str(error)

        for sentence in ranks(program, 3):
            self.assertRegex(sentence, said)

    def test_other_keys_are_named(self):
        for theirs, said in (
            ({"lr": 1, "net": {"a": 1}}, r": only rank 2 has state\['lr'\]\. Rank 0's states"),
            ({"net": {"b": 1}}, r": only rank 2 has state\['net'\]\['b'\]; only rank 0 has state\['net'\]\['a'\]\."),
            ({"net": {}}, r": only rank 0 has state\['net'\]\['a'\]\."),
        ):
            self.check(lambda run, theirs=theirs: run.save(theirs if run.rank == 2 else {"net": {"a": 1}}, step=1), said)

    @unittest.skipIf(numpy is None, "NumPy is not installed")
    def test_other_shapes_are_named(self):
        self.check(
            lambda run: run.save({"w": numpy.zeros(2 + run.rank // 2)}, step=1),
            r": only rank 2 has state\['w'\] F64\[3\]; only rank 0 has state\['w'\] F64\[2\]\.",
        )

    def test_another_number_of_saves_is_named(self):
        self.check(lambda run: [run.save({}, step=1) for _ in range(2 + run.rank // 2)], "rank 0 2 times, rank 2 3 times")
        self.check(lambda run: run.rank and run.save({}, step=1), "rank 0 0 times, rank 1 1 times")

    def test_equal_saves_and_those_of_rank_0_alone_are_none(self):
        def program(run):
            for step in range(3):
                keys = ("step", "own") if run.rank == 0 else ("own", "step")
                run.save({key: [run.rank] * run.rank for key in keys}, step=step)
                run.barrier()
            return run.should_stop()

        def alone(run):
            if run.rank == 0:
                run.save({"n": 1}, step=1)
            return run.should_stop()

        self.assertEqual(ranks(program) + ranks(alone), [False] * 4)

    def test_a_save_that_failed_on_one_rank_counts(self):
        def program(run):
            try:
                run.save({"n": object() if run.rank == 0 else 1}, step=1)
            except NotSerialisable:
                pass
            return run.should_stop()

        self.assertEqual(ranks(program), [False, False])


class ForeignCheckpoints(unittest.TestCase):
    def load(self, data, **arguments):
        with inside() as link, open("checkpoint", "wb+") as file:
            file.write(data)
            file.flush()
            link.load = lambda part=None: (os.dup(file.fileno()), len(data), 4)
            return shoal.init().load(**arguments)

    def test_what_differs_and_what_to_do_is_said(self):
        otherwise = r" A new experiment begins without it; `shoal checkpoint get 0123456789abcdef/3 DIR` writes its files\.$"
        self.assertEqual(self.load(blob({"n": 1})), {"n": 1})
        for data, arguments, said in (
            (
                blob({"n": 1}, step=4),
                {"like": {"n": "x"}},
                r"of step 4 .*: state\['n'\] is a number in the checkpoint and a str here\.",
            ),
            (
                b"of a program in C",
                {},
                r"was not written by run\.save of this package .*; load it with the program that wrote it\.",
            ),
            (blob({"n": 1})[:50], {}, r"was not written by run\.save .*\."),
        ):
            with self.assertRaisesRegex(CheckpointError, said + otherwise):
                self.load(data, **arguments)


class Order(unittest.TestCase):
    def test_a_report_reaches_the_daemon_before_the_save_behind_it(self):
        with inside() as link:
            run = shoal.init()
            for step in range(100):
                run.report({"accuracy": step}, step=step, group="validation")
                run.save({"n": step}, step=step)
            self.assertEqual(link.order, ["report", "save"] * 100)

    def test_a_refused_save_does_not_keep_reports_from_being_stored(self):
        with inside() as link:
            run = shoal.init()
            take, refusals = link.report, []

            def flush(timeout_ms):
                if not refusals:
                    refusals.append(timeout_ms)
                    run._sender._take = take  # the queue has room again
                    raise ShoalError("Storing what was reported or saved failed: the disk is full.")
                return True

            run._sender._take = lambda packed: 0
            link.flush = flush
            run.report({"a": 1}, step=0)
            with self.assertRaisesRegex(ShoalError, "the disk is full"):
                run.flush()
            self.assertEqual(link.order, ["report"])


class FailingSaves(unittest.TestCase):
    def next_save_works(self, link, run):
        free = []
        other = threading.Thread(target=lambda: free.append(link.lock.acquire(timeout=60)))
        other.start()
        other.join()
        self.assertEqual(free, [True])
        link.lock = threading.RLock()
        run.save({"n": 2}, step=9)
        step, data = link.saved.pop()
        self.assertEqual((step, read(data), link.saved), (9, {"n": 2}, []))

    def test_a_value_that_cannot_be_saved_begins_nothing(self):
        with inside() as link:
            run = shoal.init()
            with self.assertRaisesRegex(NotSerialisable, r"^state\['optimizer'\]\['state'\]\[3\]\['step'\] is a "):
                run.save({"optimizer": {"state": {3: {"step": object()}}}}, step=8)
            self.next_save_works(link, run)

    @unittest.skipIf(numpy is None, "NumPy is not installed")
    def test_an_array_that_cannot_be_copied_is_named(self):
        with inside() as link:
            run = shoal.init()
            for error, said in ((MemoryError(), "MemoryError"), (RuntimeError("CUDA error"), "CUDA error")):
                with mock.patch.object(numpy, "copyto", side_effect=error), self.assertRaises(CheckpointError) as caught:
                    run.save({"m": {"a": [1, numpy.zeros(3)]}}, step=8)
                self.assertEqual(
                    str(caught.exception),
                    f"state['m']['a'][1] cannot be copied: {said}; nothing is saved, and training may go on.",
                )
            self.next_save_works(link, run)

    def test_a_lack_of_memory_is_a_sentence(self):
        with inside() as link:
            run = shoal.init()
            with mock.patch.object(_checkpoint, "lay_out", side_effect=MemoryError):
                with self.assertRaisesRegex(CheckpointError, "step 8 is not saved, for no memory is left"):
                    run.save({"n": 1}, step=8)
            refusal = CheckpointError("Saving failed: no memory is left for a checkpoint of 4096 bytes.")
            with mock.patch.object(link, "save_begin", side_effect=refusal), self.assertRaises(CheckpointError):
                run.save({"n": 1}, step=8)
            self.next_save_works(link, run)


if __name__ == "__main__":
    unittest.main()
