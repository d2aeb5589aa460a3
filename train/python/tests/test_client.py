"""The client, against an end of the local socket that answers with given documents."""

import array
import contextlib
import errno
import io
import json
import os
import resource
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import traceback
import types
import unittest
import warnings
from pathlib import Path
from unittest import mock

from support import blob

import shoal
from shoal import _daemon, _logs, _msgpack, _progress, _snapshot
from shoal import client as client_module

ID = "a1b2c3d4e5f60718"
LISTED = [
    {"id": ID, "name": "mlp", "state": "running", "submitted_s": 20},
    {"id": "a1b2ffffffffffff", "name": "twice", "state": "queued", "submitted_s": 30},
    {"id": "0123456789abcdef", "name": "twice", "state": "failed", "submitted_s": 10},
]


class Hangup:
    """An answer: the connection ends."""


class Cut:
    """An answer: half of a frame, and the connection ends."""


class Silence:
    """An answer: nothing until the client goes."""


class Fd:
    """An answer that carries a file with these bytes."""

    def __init__(self, data, **document):
        self.data, self.document = bytes(data), document


class Refusal:
    def __init__(self, code, error):
        self.document = {"ok": False, "end": True, "code": code, "error": error}


class Scripted:
    """A daemon whose answers are given: of each op a list for each request, with its replies; the last list is used again and
    again. The last reply of a list has `end`, unless it says otherwise."""

    def __init__(self, directory, **answers):
        self.path = os.path.join(directory, "shoald.sock")
        self.answers = {op: list(lists) for op, lists in answers.items()}
        self.requests = []
        self.open()

    def open(self):
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(self.path)
        self.listener.listen(16)
        self.thread = threading.Thread(target=self.serve, args=(self.listener,), daemon=True)
        self.thread.start()

    def close(self):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(10)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)

    def serve(self, listener):
        while True:
            try:
                end, _ = listener.accept()
            except OSError:
                return
            with end, contextlib.suppress(OSError):
                self.answer(end)

    def answer(self, end):
        data = b""
        while len(data) < 4 or len(data) < 4 + struct.unpack(">I", data[:4])[0]:
            more = end.recv(1 << 16)
            if not more:
                return
            data += more
        request, _ = _msgpack.unpack(data[4:])
        self.requests.append(request)
        lists = self.answers[request["op"]]
        replies = lists.pop(0) if len(lists) > 1 else lists[0]
        for i, reply in enumerate(replies):
            if isinstance(reply, Hangup):
                return
            if isinstance(reply, Cut):
                end.sendall(struct.pack(">I", 100) + b"half")
                return
            if isinstance(reply, Silence):
                end.recv(1)
                return
            if isinstance(reply, bytes):
                end.sendall(reply)
                continue
            document = reply if isinstance(reply, dict) else reply.document
            frame = {"id": request["id"], "ok": True, "end": i == len(replies) - 1, **document}
            packed = _msgpack.pack(frame)
            out = [struct.pack(">I", len(packed)) + packed]
            if isinstance(reply, Fd):
                fd = os.memfd_create("carried")
                os.write(fd, reply.data)
                rights = array.array("i", [fd])
                end.sendmsg(out, [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
                os.close(fd)
            else:
                end.sendall(out[0])


class ClientTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.directory = place.name
        for name, value in (("RETURN_PAUSE_SECONDS", 0.01), ("RETURN_SECONDS", 5.0)):
            patch = mock.patch.object(_daemon, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def scripted(self, **answers):
        daemon = Scripted(self.directory, **{"ls": [[{"experiments": LISTED}]], **answers})
        self.addCleanup(daemon.close)
        return daemon, shoal.Client(self.directory)

    def experiment(self, **answers):
        daemon, client = self.scripted(**answers)
        return daemon, client.experiment("mlp")


def shown(*trials, state="running", **more):
    counts = {"total": len(trials), **more.pop("counts", {})}
    return {
        "experiment": {
            "id": ID, "name": "mlp", "state": state, "metric": "loss", "smaller_is_better": True, "slots_per_trial": 2,
            "trials": list(trials), "counts": counts, "best": None, **more,
        }
    }  # fmt: skip


def trial(index, state="running", **more):
    return {
        "index": index, "state": state, "attempt": 1, "step": 10, "hyperparameters": {"lr": 0.1 * (index + 1)}, "metrics": {},
        "slots": [], **more,
    }  # fmt: skip


class Finding(ClientTest):
    def test_without_a_daemon_the_sentence_says_how_to_start_one(self):
        with self.assertRaisesRegex(shoal.NoDaemon, f"{self.directory} has no node yet: shoal init makes a mesh"):
            shoal.Client(self.directory)
        Path(self.directory, "key").touch()  # as after init
        with self.assertRaisesRegex(shoal.NoDaemon, f"No daemon runs on {self.directory}; start it with: shoald --dir"):
            shoal.Client(self.directory)

    def test_a_daemon_that_is_starting_is_waited_for(self):
        Path(self.directory, "lock").write_text(f"{os.getpid()}\n")  # as a daemon has it before its socket
        os.utime(Path(self.directory, "lock"), (1, 1))
        holder = []
        starting = threading.Timer(0.3, lambda: holder.append(Scripted(self.directory, ls=[[{"experiments": []}]])))
        starting.start()
        self.assertEqual(shoal.Client(self.directory).experiments(), [])
        starting.join()
        holder[0].close()

    def test_a_lock_of_a_daemon_that_ended_is_not_waited_for(self):
        gone = subprocess.Popen(["true"])
        gone.wait()
        Path(self.directory, "lock").write_text(f"{gone.pid}\n")
        os.utime(Path(self.directory, "lock"), (1, 1))
        Path(self.directory, "key").touch()
        with self.assertRaisesRegex(shoal.NoDaemon, "No daemon runs on"):
            shoal.Client(self.directory)

    def test_a_path_that_is_too_long_is_said_to_be(self):
        with self.assertRaisesRegex(shoal.NoDaemon, "longer than a socket's may be"):
            shoal.Client(os.path.join(self.directory, "x" * 120))

    def test_the_directory_is_as_given_or_of_the_environment_or_of_the_machine(self):
        with mock.patch.dict(os.environ, {"SHOAL_DIR": "/some/where", "HOME": "/home/elm"}):
            self.assertEqual(_daemon.data_directory("/given"), "/given")
            self.assertEqual(_daemon.data_directory(None), "/some/where")
            del os.environ["SHOAL_DIR"]
            self.assertRegex(_daemon.data_directory(None), "^/home/elm/.local/state/shoal/.+")

    def test_an_experiment_is_found_by_name_id_and_beginning_of_an_id(self):
        daemon, client = self.scripted(show=[[shown(state="queued")]])
        for text in ("mlp", ID, ID.upper(), "a1b2c"):
            self.assertEqual(client.experiment(text).id, ID, text)
        self.assertEqual([each.id for each in client.experiments()], ["0123456789abcdef", ID, "a1b2ffffffffffff"])
        self.assertEqual(daemon.requests[0]["v"], 1)

    def test_names_that_several_have_and_unknown_names_are_refused(self):
        _, client = self.scripted()
        with self.assertRaisesRegex(
            shoal.ShoalError, "2 experiments fit 'twice': a1b2ffffffffffff, 0123456789abcdef; give one"
        ):
            client.experiment("twice")
        with self.assertRaisesRegex(shoal.ShoalError, "2 experiments fit 'a1b2'"):
            client.experiment("a1b2")
        with self.assertRaisesRegex(shoal.NotFound, "no experiment with the name or id 'elm'; client.experiments"):
            client.experiment("elm")
        with self.assertRaisesRegex(shoal.NotFound, "the beginning of an id needs 4 digits"):
            client.experiment("a1b")

    def test_a_node_that_is_catching_up_does_not_deny_the_experiment(self):
        _, client = self.scripted(ls=[[{"experiments": [], "syncing": True}]])
        with self.assertRaisesRegex(shoal.ShoalError, "still catching up") as caught:
            client.experiment("mlp")
        self.assertNotIsInstance(caught.exception, shoal.NotFound)

    def test_a_deleted_experiment_is_not_found(self):
        sentence = f"The experiment with the id {ID} was deleted; `shoal ls` lists those that are left."
        _, experiment = self.experiment(show=[[Refusal(4, sentence)]], wait=[[Refusal(4, sentence)]])
        for ask in (lambda: experiment.trials, lambda: experiment.state, lambda: experiment.wait(progress=False)):
            with self.assertRaises(shoal.NotFound) as caught:
                ask()
            self.assertEqual(str(caught.exception), sentence)

    def test_nodes_are_listed(self):
        row = {
            "id": "00" * 16,
            "name": "elm",
            "label": "elm~0000",
            "state": "alive",
            "slots": 2,
            "version": "0.1",
            "address": None,
        }
        _, client = self.scripted(nodes=[[{"nodes": [row]}]])
        (node,) = client.nodes()
        self.assertEqual((node.name, node.label, node.slots, node.drained), ("elm", "elm~0000", 2, False))


class Talking(ClientTest):
    def test_a_document_in_parts_is_joined(self):
        first = shown(trial(0), counts={"running": 1})
        second = {"experiment": {"trials": [trial(1)], "name": "other"}}
        _, experiment = self.experiment(show=[[{**first, "more": True, "end": False}, {**second, "end": True}]])
        self.assertEqual([each.number for each in experiment.trials], [0, 1])
        self.assertEqual(experiment.config["name"], "mlp")  # of other values the first counts

    def test_a_daemon_that_is_restarted_in_the_midst_is_asked_again(self):
        for answer in ([Hangup()], [Cut()], [_turned_away()]):
            with self.subTest(answer=answer):
                daemon, experiment = self.experiment(show=[answer, answer, [shown(trial(0))]])
                self.assertEqual(len(experiment.trials), 1)
                self.assertEqual([request["op"] for request in daemon.requests[1:]], ["show"] * 3)
                daemon.close()

    def test_a_daemon_that_is_away_for_a_moment_is_waited_for(self):
        daemon, experiment = self.experiment(show=[[shown(trial(0))]])
        daemon.close()
        threading.Timer(0.3, daemon.open).start()
        self.assertEqual(len(experiment.trials), 1)

    def test_a_daemon_that_does_not_return_is_missed(self):
        daemon, experiment = self.experiment()
        daemon.close()
        with mock.patch.object(_daemon, "RETURN_SECONDS", 0.05), self.assertRaisesRegex(shoal.NoDaemon, "not back within"):
            experiment.pause()

    def test_what_is_no_reply_is_said_to_be(self):
        for bad in (b"\xff\xff\xff\xff", struct.pack(">I", 1) + b"\xc1", struct.pack(">I", 1) + b"\x07"):
            daemon, client = self.scripted(nodes=[[bad]])
            with self.assertRaisesRegex(shoal.ShoalError, "is no reply; are this package and shoald of the same version"):
                client.nodes()
            daemon.close()

    def test_a_daemon_that_does_not_answer_is_given_up(self):
        _, client = self.scripted(nodes=[[{"nodes": [], "id": 7}, Silence()]])  # of another request: skipped
        with (
            mock.patch.object(_daemon, "ANSWER_SECONDS", 0.2),
            self.assertRaisesRegex(TimeoutError, "has not answered in time"),
        ):
            client.nodes()

    def test_a_daemon_that_takes_no_request_is_said_to_be_late(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(os.path.join(self.directory, "shoald.sock"))
            listener.listen(4)
            daemon = _daemon.Daemon(self.directory)
            with (
                mock.patch.multiple(_daemon, ANSWER_SECONDS=0.1, RETURN_SECONDS=0.05),
                self.assertRaisesRegex(shoal.NoDaemon, "did not take the request: timed out"),
            ):
                daemon.ask("nodes", room="x" * 1_000_000)

    def test_a_process_without_free_descriptors_is_told(self):
        _, client = self.scripted()
        full = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        with (
            mock.patch.object(_daemon, "RETURN_SECONDS", 0.05),
            mock.patch.object(socket, "socket", side_effect=full),
            self.assertRaisesRegex(shoal.NoDaemon, "cannot be used: Too many open files"),
        ):
            client.nodes()

    def test_refusals_are_the_daemons_sentence(self):
        _, experiment = self.experiment(cancel=[[Refusal(1, "It is over.")]])
        with self.assertRaisesRegex(shoal.ShoalError, r"^It is over\.$"):
            experiment.cancel()

    def test_controls_name_the_experiment(self):
        done = [[{"experiment": ID, "stored_on": 2}]]
        daemon, experiment = self.experiment(pause=done, resume=done, cancel=done, delete=done)
        for name in ("pause", "resume", "cancel", "delete"):
            getattr(experiment, name)()
            self.assertEqual((daemon.requests[-1]["op"], daemon.requests[-1]["experiment"]), (name, ID))

    def test_a_search_is_extended(self):
        daemon, experiment = self.experiment(max_trials=[[{"experiment": ID, "stored_on": 2}]])
        experiment.extend(64)
        self.assertEqual((daemon.requests[-1]["op"], daemon.requests[-1]["max_trials"]), ("max_trials", 64))


def _turned_away():
    packed = _msgpack.pack({"id": 0, "ok": False, "end": True, "code": 1, "error": "The daemon serves too many."})
    return struct.pack(">I", len(packed)) + packed


TRACEBACK = (
    'begun\nTraceback (most recent call last):\n  File "t.py", line 1, in <module>\n    1 / 0\n    ~~^~~\n'
    "ZeroDivisionError: division by zero\n"
)


class Trials(ClientTest):
    def test_trials_have_what_the_daemon_tells(self):
        slots = [{"node_label": "elm"}, {"node_label": "fir"}]
        row = trial(0, hyperparameters={"opt": {"lr": 0.1}, "units": 64}, metrics={"validation": {"loss": 0.5}}, slots=slots)
        _, experiment = self.experiment(show=[[shown(row)]])
        one = experiment.trial(0)
        self.assertEqual((one.number, one.state, one.step, one.nodes), (0, "running", 10, ["elm", "fir"]))
        self.assertEqual(one.hparams["opt"]["lr"], 0.1)
        self.assertEqual(
            one.row(),
            {"number": 0, "state": "running", "reason": None, "attempt": 1, "step": 10, "hparams.opt.lr": 0.1,
             "hparams.units": 64, "validation.loss": 0.5},
        )  # fmt: skip
        with self.assertRaisesRegex(shoal.NotFound, "mlp has no trial 7; it has 1, numbered from 0"):
            experiment.trial(7)

    def test_a_stop_names_the_trial(self):
        done = [[{"experiment": ID, "trial": 1, "stored_on": 2}]]
        daemon, experiment = self.experiment(show=[[shown(trial(0), trial(1))]], stop=done)
        experiment.trial(1).stop()
        asked = daemon.requests[-1]
        self.assertEqual((asked["op"], asked["experiment"], asked["trial"]), ("stop", ID, 1))

    def test_a_retry_names_the_trial(self):
        done = [[{"experiment": ID, "trial": 1, "stored_on": 2}]]
        daemon, experiment = self.experiment(show=[[shown(trial(0), trial(1))]], retry=done)
        experiment.trial(1).retry()
        asked = daemon.requests[-1]
        self.assertEqual((asked["op"], asked["experiment"], asked["trial"]), ("retry", ID, 1))

    def test_the_best_trial_is_by_the_metric_of_the_configuration_or_another(self):
        rows = [
            trial(0, metrics={"validation": {"loss": 0.5, "accuracy": 0.7}, "training": {"loss": 0.1}}),
            trial(1, metrics={"validation": {"loss": 0.3, "accuracy": 0.6}, "training": {"loss": 0.2}}),
            trial(2, metrics={"validation": {"loss": float("nan")}}),
        ]
        _, experiment = self.experiment(show=[[shown(*rows)]])
        self.assertEqual(experiment.best_trial().number, 1)
        self.assertEqual(experiment.best_trial("training/loss").number, 0)
        self.assertEqual(experiment.best_trial("accuracy", smaller_is_better=False).number, 0)
        with self.assertRaisesRegex(shoal.NotFound, "has reported f1 .*reported are: training/loss, validation/accuracy"):
            experiment.best_trial("f1")

    def test_without_results_the_errors_of_failed_trials_are_said(self):
        for states, said in (
            (("failed", "failed"), r"has reported loss: all 2 trials failed: ZeroDivisionError: division by zero$"),
            (("failed", "cancelled"), "has reported loss: 1 of 2 trials failed: ZeroDivisionError"),
            (("failed",), "has reported loss: its trial failed: ZeroDivisionError"),
            (("cancelled",), r"has reported loss; reported are: none\.$"),
        ):
            rows = [trial(i, state, tail=TRACEBACK) for i, state in enumerate(states)]
            daemon, experiment = self.experiment(show=[[shown(*rows, state="failed")]])
            with self.assertRaisesRegex(shoal.NotFound, said):
                experiment.best_trial()
            daemon.close()

    def test_the_error_of_a_trial_is_the_last_line_of_its_traceback(self):
        for tail, error in (
            (TRACEBACK, "ZeroDivisionError: division by zero"),
            (f"{TRACEBACK}a line of another rank\n", "ZeroDivisionError: division by zero"),
            ("ValueError: bad batch\nline 600\n", "ValueError: bad batch"),
            ("sh: 1: python3.7: not found\n\n", "sh: 1: python3.7: not found"),
            ("", None),
        ):
            self.assertEqual(_logs.error_of(tail), error)

    def test_metrics_are_rows_without_void_points(self):
        def point(at, void=False, group="training", **metrics):
            return {"trial": 0, "attempt": 1, "generation": 1, "step": at, "group": group, "metrics": metrics, "void": void}

        replies = [
            {"points": [point(1, loss=3.0)]},
            {"points": [point(2, True, loss=2.0), point(2, group="validation", step=9.0)]},
            {"points": []},
        ]
        _, experiment = self.experiment(show=[[shown(trial(0))]], metrics=[[replies[0], Hangup()], replies])
        with mock.patch.dict(sys.modules, {"pandas": None}):
            rows = experiment.trial(0).metrics()
            self.assertEqual([row["step"] for row in rows], [1, 2])  # once each, though the daemon was restarted
            self.assertEqual(rows[1]["metric.step"], 9.0)
            self.assertEqual(len(experiment.trial(0).metrics(void=True)), 3)
            self.assertEqual([row["loss"] for row in experiment.trial(0).metrics("training")], [3.0])
            self.assertEqual(experiment.trial(0).metrics("test"), [])
            said = "Trial 0 of mlp has reported no metrics of group 'nope'; it has: training, validation"
            with self.assertRaisesRegex(shoal.NotFound, said):
                experiment.trial(0).metrics("nope")
        frames = types.SimpleNamespace(DataFrame=lambda rows: ("frame", rows))
        with mock.patch.dict(sys.modules, {"pandas": frames}):
            self.assertEqual(experiment.trial(0).metrics("training")[0], "frame")
            self.assertEqual(experiment.trials_dataframe()[1][0]["number"], 0)

    def test_sums_are_rows_with_their_parts(self):
        sums = {"count": 4, "min": 1.0, "max": 3.0, "mean": 2.0, "last": float("nan")}
        point = {
            "trial": 0,
            "attempt": 1,
            "generation": 1,
            "step": 4,
            "wall_ms": 1500,
            "group": "training",
            "metrics": {"loss": sums},
        }
        daemon, experiment = self.experiment(show=[[shown(trial(0))]], metrics=[[{"points": [point]}]])
        with mock.patch.dict(sys.modules, {"pandas": None}):
            (row,) = experiment.trial(0).metrics(points=500)
        self.assertEqual((daemon.requests[-1]["points"], daemon.requests[-1]["void"]), (500, False))
        wanted = {"step": 4, "time": 1.5, "loss.count": 4, "loss.min": 1.0, "loss.max": 3.0, "loss.mean": 2.0}
        self.assertEqual({name: row[name] for name in wanted}, wanted)
        self.assertTrue(row["loss.last"] != row["loss.last"])

    def test_points_of_an_unreachable_node_are_missed_aloud(self):
        _, experiment = self.experiment(show=[[shown(trial(0))]], metrics=[[{"unreachable": ["elm"]}]])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            experiment.trial(0).metrics()
        self.assertIn("only elm has are missing", str(caught[0].message))

    def test_without_pandas_the_error_names_the_alternative(self):
        _, experiment = self.experiment(show=[[shown(trial(0))]])
        with mock.patch.dict(sys.modules, {"pandas": None}), self.assertRaisesRegex(ImportError, r"trial.row\(\) for trial in"):
            experiment.trials_dataframe()


def piece(text, rank=0, attempt=1, workers=1):
    return {"attempt": attempt, "rank": rank, "bytes": text, "workers_max": workers, "end": False}


class Logs(ClientTest):
    def test_pieces_become_lines_with_ranks(self):
        replies = [piece(b"one ", 0, workers=2), piece(b"other\n", 1, workers=2), piece(b"two\n 5%\r10%", 0, workers=2), {}]
        _, experiment = self.experiment(show=[[shown(trial(0))]], logs=[replies])
        self.assertEqual(list(experiment.trial(0).logs()), ["[rank=1] other", "[rank=0] one two", "[rank=0] 10%"])

    def test_a_restarted_daemon_repeats_no_line(self):
        again = [piece(b"one\ntw"), piece(b"o\nthree\n"), {}]
        _, experiment = self.experiment(show=[[shown(trial(0))]], logs=[[piece(b"one\n"), piece(b"two\nth"), Hangup()], again])
        self.assertEqual(list(experiment.trial(0).logs(follow=True)), ["one", "two", "three"])

    def test_a_reason_to_wait_is_no_line(self):
        replies = [{"waiting": "No slot is free.", "end": False}, piece(b"begun\n"), {}]
        daemon, experiment = self.experiment(show=[[shown(trial(0, "queued", attempt=None))]], logs=[replies])
        self.assertEqual(list(experiment.trial(0).logs(follow=True)), ["begun"])
        self.assertTrue(daemon.requests[-1]["follow"])

    def test_a_trial_without_a_log_has_no_lines_unless_an_attempt_is_asked_for(self):
        for state, answer in (({"state": "cancelled"}, None), (Refusal(4, "It was deleted."), "It was deleted")):
            daemon, experiment = self.experiment(
                show=[[shown(trial(0, attempt=None))]], logs=[[Refusal(4, "No log (yet).")]], wait=[[state]]
            )
            one = experiment.trial(0)
            with self.assertRaisesRegex(shoal.NotFound, "No log"):
                list(one.logs(attempt=3))
            if answer is None:
                self.assertEqual(list(one.logs(follow=True)), [])
                self.assertEqual(list(experiment.logs(follow=False)), [])
            else:
                with self.assertRaisesRegex(shoal.NotFound, answer):
                    list(one.logs())
            daemon.close()

    def test_one_attempt_or_all_are_asked_for(self):
        daemon, experiment = self.experiment(show=[[shown(trial(0))]], logs=[[{}]])
        for attempt, key, value in ((3, "attempt", 3), ("all", "all_attempts", True)):
            list(experiment.trial(0).logs(attempt=attempt))
            self.assertEqual(daemon.requests[-1][key], value)

    def test_the_lines_of_several_trials_are_merged(self):
        both = shown(trial(0), trial(1), counts={"total": 2})
        _, experiment = self.experiment(show=[[both]], watch=[[both]], logs=[[piece(b"hello\n"), {}]])
        self.assertEqual(sorted(experiment.logs()), ["[trial=0] hello", "[trial=1] hello"])
        self.assertEqual(list(experiment.logs(follow=False)), ["[trial=0] hello", "[trial=1] hello"])

    def test_trials_that_are_over_are_read_one_after_the_other(self):
        rows = [trial(i, "completed" if i % 2 else "failed") for i in range(40)] + [
            trial(40),
            trial(41, "queued", attempt=None),
        ]
        listed = shown(*rows, counts={"total": 42})
        _, experiment = self.experiment(show=[[listed]], watch=[[listed]], logs=[[piece(b"hello\n"), {}]])
        with mock.patch.object(_logs.Merged, "add", autospec=True, side_effect=_logs.Merged.add) as add:
            lines = list(experiment.logs())
        self.assertEqual(sorted(lines), sorted(f"[trial={i}] hello" for i in range(41)))
        self.assertEqual(add.call_count, 3)  # the watch, those that are over, and the one that runs

    def test_lines_that_nobody_reads_any_more_leave_no_connection(self):
        both = shown(trial(0), trial(1), counts={"total": 2})
        _, experiment = self.experiment(
            show=[[both]], watch=[[both]], logs=[[piece(b"hello\n"), Silence()]], wait=[[{"state": "running"}]]
        )
        lines = experiment.logs()
        self.assertRegex(next(lines), "hello")
        lines.close()
        with mock.patch.object(_daemon, "ANSWER_SECONDS", 5.0):
            self.assertEqual(experiment.state, "running")  # this daemon serves one connection after the other

    def test_sources_wait_while_their_lines_are_not_read(self):
        """Nothing is dropped, and what is not read is bounded; a reader that leaves lets the sources end."""
        made, ended = [0], threading.Event()

        def source():
            try:
                while made[0] < 100_000:
                    made[0] += 1
                    yield str(made[0])
            finally:
                ended.set()

        with mock.patch.object(_logs, "WAITING_MAX", 50):
            merged = _logs.Merged()
            merged.add(source)
            lines = iter(merged)
            for number in range(1, 2001):
                self.assertEqual(next(lines), str(number))
                self.assertLessEqual(made[0], number + 52)  # those that wait, one in a hand at each end
            lines.close()
            self.assertTrue(ended.wait(60))
        self.assertLess(made[0], 100_000)

    def test_an_error_of_one_trial_ends_the_merged_lines(self):
        merged = _logs.Merged()

        def broken():
            yield "line"
            raise shoal.ShoalError("It broke.")

        merged.add(broken)
        with self.assertRaisesRegex(shoal.ShoalError, "It broke"):
            list(merged)


class Checkpoints(ClientTest):
    LISTED = (
        {"trial": 0, "step": 100, "attempt": 1, "bytes": 5, "durable": True, "holders": [{"label": "elm"}, {"label": "fir"}]},
        {"trial": 0, "step": 200, "attempt": 2, "bytes": 5, "durable": False, "holders": [{"label": "elm"}]},
        {"trial": 1, "step": 300, "attempt": 1, "bytes": 5, "durable": True, "holders": []},
    )

    def trial_with(self, *answers, listed=LISTED, **more):
        asked = {"show": [[shown(trial(0))]], "checkpoint_ls": [[{"checkpoints": list(listed)}]], **more}
        daemon, experiment = self.experiment(checkpoint_get=[list(answers)], **asked)
        return daemon, experiment.trial(0)

    def test_the_newest_or_that_of_a_step_is_chosen(self):
        _, one = self.trial_with()
        self.assertEqual([each.step for each in one.checkpoints()], [100, 200])
        self.assertEqual((one.checkpoint().step, one.checkpoint().durable), (200, False))
        self.assertEqual(one.checkpoint(100).holders, ["elm", "fir"])
        with self.assertRaisesRegex(shoal.NotFound, "no checkpoint of step 7; it has: 100, 200"):
            one.checkpoint(7)

    def test_without_checkpoints_none_is_found(self):
        _, one = self.trial_with(listed=())
        with self.assertRaisesRegex(shoal.NotFound, r"has no checkpoint \(yet\)"):
            one.checkpoint()

    def test_a_state_is_unpacked_and_loaded(self):
        data = blob({"epoch": 3, "names": ("a", "b")}, step=200)
        daemon, one = self.trial_with(Fd(data + b"beyond", bytes=len(data)))
        place = one.checkpoint().download(os.path.join(self.directory, "got"))
        self.assertEqual(os.listdir(place), ["state.msgpack"])
        self.assertEqual(daemon.requests[-1]["step"], 200)
        self.assertEqual(one.checkpoint().load(), {"epoch": 3, "names": ("a", "b")})

    def test_what_a_program_in_c_saved_is_one_file(self):
        _, one = self.trial_with(Fd(b"weights", bytes=7))
        place = one.checkpoint().download(os.path.join(self.directory, "got"))
        self.assertEqual(Path(place, "checkpoint").read_bytes(), b"weights")
        with self.assertRaisesRegex(shoal.CheckpointError, "was not written by run.save"):
            one.checkpoint().load()

    def test_the_files_of_a_programs_own_checkpoint_are_unpacked(self):
        listed = [{"trial": 0, "step": 9, "attempt": 1, "bytes": 3, "durable": True, "holders": [], "path": "epoch-9"}]
        data = snapshot(("output/log", 1, b"no"), ("checkpoint/epoch-9", 0, b""), ("checkpoint/epoch-9/model.pt", 1, b"yes"))
        _, one = self.trial_with(listed=listed, output_get=[[Fd(data, bytes=len(data))]])
        place = one.checkpoint().download(os.path.join(self.directory, "got"))
        self.assertEqual(os.listdir(place), ["model.pt"])
        self.assertEqual(Path(place, "model.pt").read_bytes(), b"yes")

    def test_a_programs_own_checkpoint_may_be_one_file(self):
        listed = [{"trial": 0, "step": 9, "attempt": 1, "bytes": 3, "durable": True, "holders": [], "path": "9.pt"}]
        data = snapshot(("checkpoint", 0, b""), ("checkpoint/8.pt", 1, b"no"), ("checkpoint/9.pt", 1, b"yes"))
        _, one = self.trial_with(listed=listed, output_get=[[Fd(data, bytes=len(data))]])
        place = one.checkpoint().download(os.path.join(self.directory, "got"))
        self.assertEqual(os.listdir(place), ["9.pt"])

    def test_a_directory_that_cannot_be_written_is_named(self):
        data = blob({"epoch": 3})
        _, one = self.trial_with(Fd(data, bytes=len(data)))
        with self.assertRaisesRegex(shoal.CheckpointError, "/proc/nowhere cannot be written"):
            one.checkpoint().download("/proc/nowhere")


def snapshot(*entries):
    listing = [1, [[path.encode(), kind, 0o644, len(data), 1, link[0] if link else b""] for path, kind, data, *link in entries]]
    return _msgpack.pack(listing) + b"".join(data for _, _, data, *_ in entries)


class Snapshots(unittest.TestCase):
    def test_paths_and_links_that_lead_out_are_refused(self):
        for path, kind, link in (("../x", 1, b""), ("/x", 1, b""), ("a//b", 1, b""), ("a", 2, b"../x"), ("a", 2, b"/etc")):
            self.assertIsNone(_snapshot.entries(memoryview(snapshot((path, kind, b"", link)))), path)
        self.assertIsNone(_snapshot.entries(memoryview(snapshot(("a", 1, b"1234")))[:-1]))

    def test_weights_are_not_read_as_a_listing(self):
        weights = b"\xdd\x00\x0f\xff\xff" + bytes(1 << 20)  # MessagePack of a million zeros
        with mock.patch.object(_msgpack, "unpack", side_effect=AssertionError):
            self.assertIsNone(_snapshot.entries(memoryview(weights)))

    def test_a_file_that_cannot_be_written_whole_leaves_nothing(self):
        data = memoryview(snapshot(("model", 1, bytes(100_000))))
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        with tempfile.TemporaryDirectory() as place:
            resource.setrlimit(resource.RLIMIT_FSIZE, (8192, limits[1]))  # in the place of a full disk
            try:
                with self.assertRaisesRegex(shoal.CheckpointError, f"^{place} cannot be written: File too large"):
                    _snapshot.unpack(data, place)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            self.assertEqual(os.listdir(place), [])

    def test_nothing_is_written_through_a_link(self):
        with tempfile.TemporaryDirectory() as place:
            outside, inside = Path(place, "outside"), Path(place, "inside")
            outside.mkdir()
            inside.mkdir()
            (inside / "sub").symlink_to(outside)
            _snapshot.unpack(memoryview(snapshot(("sub/file", 1, b"new"))), str(inside))
            self.assertEqual(os.listdir(outside), [])
            self.assertEqual((inside / "sub" / "file").read_bytes(), b"new")

    def test_links_of_the_snapshot_lead_no_write_out(self):
        evil = (
            ("d", 0, b""), ("d/e", 0, b""), ("d/e/up", 2, b"", b"../.."), ("file.part", 2, b"", b"d/e/up/../evil"),
            ("file", 1, b"data"), ("d/e/up/below", 1, b"data"), ("d/e/up/link", 2, b"", b"x"),
        )  # fmt: skip
        for entries in (evil, evil[::-1]):
            with tempfile.TemporaryDirectory() as place:
                with contextlib.suppress(shoal.CheckpointError):
                    _snapshot.unpack(memoryview(snapshot(*entries)), os.path.join(place, "inside"))
                self.assertEqual(os.listdir(place), ["inside"])
                self.assertEqual(Path(place, "inside", "file").read_bytes(), b"data")
                self.assertFalse(os.path.lexists(os.path.join(place, "inside", "below")))
                self.assertFalse(os.path.lexists(os.path.join(place, "inside", "link")))

    def test_files_have_the_mode_of_the_snapshot(self):
        with tempfile.TemporaryDirectory() as place:
            _snapshot.unpack(memoryview(snapshot(("file", 1, b"data"), ("link", 2, b"", b"file"))), place)
            self.assertEqual(os.stat(os.path.join(place, "file")).st_mode & 0o777, 0o644)
            self.assertEqual(Path(place, "link").read_bytes(), b"data")


class Waiting(ClientTest):
    def reply(self, state, done, **more):
        best = {"trial": 1, "metric": "loss", "value": 0.25} if done else None
        return {"state": state, "trials": {"total": 2, "completed": done, "running": 2 - done}, "best": best, **more}

    def test_wait_returns_the_state_over_a_restart(self):
        _, experiment = self.experiment(
            wait=[[self.reply("running", 0), Hangup()], [self.reply("running", 1), self.reply("failed", 2)]],
            show=[[shown(trial(0, "completed"), trial(1, "cancelled"))]],
        )
        out = io.StringIO()
        with contextlib.redirect_stderr(out):
            self.assertEqual(experiment.wait(timeout=60), "failed")
        self.assertEqual(
            out.getvalue().splitlines(),
            [
                "mlp: running, 0 of 2 trials over, 2 running",
                "mlp: running, 1 of 2 trials over, 1 running, best loss 0.25 (trial 1)",
                "mlp: failed, 2 of 2 trials over, best loss 0.25 (trial 1)",
            ],
        )

    def test_a_stopped_trial_is_over(self):
        counts = {"total": 3, "running": 1, "completed": 1, "failed": 0, "stopped": 1}
        state, done, total, words = _progress.summary({"state": "running", "trials": counts})
        self.assertEqual((state, done, total, words), ("running", 2, 3, "1 running, 1 stopped"))

    def test_the_reasons_of_failed_trials_are_told_at_the_end(self):
        why = "rank 0 ended with status 1 on elm"
        rows = [trial(0, "completed", tail=None)] + [trial(i, "failed", reason=why, tail=TRACEBACK) for i in (1, 2)]
        _, experiment = self.experiment(wait=[[self.reply("failed", 2)]], show=[[shown(*rows, trial(3, "failed"))]])
        out = io.StringIO()
        with contextlib.redirect_stderr(out):
            experiment.wait(progress=False)
            self.assertEqual(out.getvalue(), "")
            experiment.wait()
        self.assertEqual(
            out.getvalue().splitlines()[1:],
            [
                f"shoal: mlp: 2 trials (the first is 1) failed: {why}",
                "shoal: mlp: trial 3 failed: for an unknown reason",
                "shoal: trial 1 ended with: ZeroDivisionError: division by zero;"
                f" client.experiment('{ID}').trial(1).logs() has the lines",
            ],
        )

    def test_wait_gives_up_after_its_time(self):
        _, experiment = self.experiment(wait=[[self.reply("running", 0), Silence()]])
        with self.assertRaisesRegex(TimeoutError, "mlp is still running after 0.2 s; it goes on"):
            experiment.wait(timeout=0.2, progress=False)

    def test_an_interrupt_leaves_it_running_and_says_how_to_find_it(self):
        _, experiment = self.experiment(wait=[[self.reply("running", 0), Silence()]])
        out = io.StringIO()
        interrupt = mock.patch.object(_progress.Lines, "update", side_effect=KeyboardInterrupt)
        with interrupt, contextlib.redirect_stderr(out):
            try:
                experiment.wait()
            except KeyboardInterrupt as error:
                caught = error
        self.assertEqual(out.getvalue(), f"shoal: mlp runs on; client.experiment('{ID}') has it, .cancel() ends it\n")
        self.assertTrue(caught.__suppress_context__)
        places = [frame.filename for frame in traceback.extract_tb(caught.__traceback__)]
        self.assertEqual([os.path.basename(place) for place in places], ["test_client.py", "client.py"])

    def test_a_terminal_gets_a_bar(self):
        out = io.StringIO()
        with _progress.Bar("mlp", out) as bar:
            bar.update(self.reply("running", 1))
            bar.update(self.reply("completed", 2))
        drawn = out.getvalue()
        self.assertIn("\rmlp [##########..........] 1/2 running", drawn)
        self.assertTrue(drawn.endswith("\n"))
        self.assertEqual(drawn.count("\n"), 1)

    def test_a_notebook_with_rich_gets_a_table_that_is_updated(self):
        shows = []

        class Handle:
            def update(self, table):
                shows.append(table)

        def display(table, display_id):
            shows.append((table, display_id))
            return Handle()

        def module(name, **names):
            made = types.ModuleType(name)
            made.__spec__ = mock.Mock()
            made.__dict__.update(names)
            return made

        shell = type("ZMQInteractiveShell", (), {})()
        modules = {
            "IPython": module("IPython", get_ipython=lambda: shell),
            "IPython.display": module("IPython.display", display=display),
            "rich": module("rich"),
            "rich.table": module("rich.table", Table=Rows),
            "rich.text": module("rich.text", Text=str),
        }
        rows = [trial(0), trial(1, metrics={"validation": {"loss": 0.5}}), trial(2, metrics={"validation": {"loss": 0.25}})]
        with mock.patch.dict(sys.modules, modules):
            _, experiment = self.experiment(
                watch=[[{**shown(*rows), "end": False}, shown(*rows, state="completed")]], show=[[shown(*rows)]]
            )
            self.assertEqual(experiment.wait(), "completed")
        (first, has_id), last = shows
        self.assertTrue(has_id)
        self.assertEqual([row[0] for row in first.rows], ["2", "1", "0"])  # the best one first
        self.assertEqual(first.headings, ["trial", "state", "step", "loss", "lr"])
        self.assertIn("mlp: completed", last.title)

    def test_the_table_has_room_for_some_trials_only(self):
        chosen = _progress.chosen_rows([trial(i, "queued") for i in range(100)] + [trial(100)], "loss", True)
        self.assertEqual(len(chosen), _progress.ROWS_MAX)
        self.assertEqual(chosen[0]["index"], 100)  # a running one


class Rows:
    def __init__(self, title, caption):
        self.title, self.caption, self.headings, self.rows = title, caption, [], []

    def add_column(self, heading):
        self.headings.append(heading)

    def add_row(self, *cells):
        self.rows.append(cells)


class Submitting(ClientTest):
    def command(self, text):
        """A program in the place of the command shoal, which writes its arguments and its configuration down."""
        path = Path(self.directory, "bin", "shoal")
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" > {self.directory}/words\ncat \"$2\" > {self.directory}/config\n"
                        f"ls \"$4\" > {self.directory}/files\n{text}\n")  # fmt: skip
        path.chmod(0o755)
        environment = {"PATH": f"{path.parent}:{os.environ['PATH']}"}
        patch = mock.patch.dict(os.environ, environment)
        patch.start()
        self.addCleanup(patch.stop)
        os.environ.pop("SHOAL_LIBRARY", None)

    def written(self, name):
        return Path(self.directory, name).read_text()

    def test_a_dict_is_handed_to_the_command(self):
        self.command(f"echo 'shoal: a warning' >&2; echo '{{\"experiment\": \"{ID}\"}}'")
        _, client = self.scripted(show=[[shown()]])
        config = {"name": "mlp", "entrypoint": "true", "hyperparameters": {"lr": 0.1}}
        out = io.StringIO()
        with contextlib.redirect_stderr(out):
            experiment = client.submit(config)
        self.assertEqual((experiment.id, experiment.config), (ID, config))
        self.assertEqual(json.loads(self.written("config")), config)
        self.assertEqual(self.written("files"), "")  # nothing travels
        self.assertEqual(self.written("words").split()[-2:], ["--dir", self.directory])
        self.assertEqual(out.getvalue(), "shoal: a warning\n")

    def test_text_of_all_kinds_is_written_as_yaml_reads_it(self):
        self.command(f'echo \'{{"experiment": "{ID}"}}\'')
        _, client = self.scripted(show=[[shown()]])
        for text, written in (
            ("\U0001f600", r"\U0001f600"), ("\U0010ffff!", r"\U0010ffff!"),
            ("caf\u00e9 \u2028\x7f\n", r"caf\u00e9 \u2028\u007f\n"),
            (r"\ud83d\ude00", r"\\ud83d\\ude00"), ("\\\U0001f600", r"\\\U0001f600"), ("\u20ac\U00010000", r"\u20ac\U00010000"),
        ):  # fmt: skip
            client.submit({"name": text})
            self.assertEqual(self.written("config"), '{\n "name": "' + written + '"\n}')

    def test_the_directory_of_a_file_travels_or_another_one(self):
        self.command(f'echo \'{{"experiment": "{ID}"}}\'')
        _, client = self.scripted(show=[[shown()]])
        code, data = Path(self.directory, "code"), Path(self.directory, "data")
        for place, name in ((code, "train.py"), (data, "numbers")):
            place.mkdir()
            (place / name).write_text("")
        (code / "experiment.yaml").write_text("entrypoint: true")
        client.submit(code / "experiment.yaml")
        self.assertEqual(self.written("files").split(), ["experiment.yaml", "train.py"])
        client.submit({"entrypoint": "true"}, files=data)
        self.assertEqual(self.written("files").split(), ["numbers"])

    def test_what_the_command_refuses_is_an_error_without_its_name(self):
        self.command("echo 'shoal: config:3:2: wrong is no key; did you mean name?' >&2; exit 1")
        _, client = self.scripted()
        with self.assertRaisesRegex(shoal.ShoalError, "^wrong is no key; did you mean name"):
            client.submit({"wrong": 1})

    def test_values_that_are_none_of_json_are_refused(self):
        _, client = self.scripted()
        with self.assertRaisesRegex(TypeError, "holds a object, which is no plain value"):
            client.submit({"entrypoint": object()})
        with self.assertRaisesRegex(shoal.ShoalError, "cannot be written"):
            client.submit({"entrypoint": float("inf")})

    def test_without_the_command_the_sentence_says_so(self):
        with mock.patch.dict(os.environ, {"PATH": self.directory}), self.assertRaisesRegex(shoal.ShoalError, "not on the PATH"):
            os.environ.pop("SHOAL_LIBRARY", None)
            client_module.find_command()


if __name__ == "__main__":
    unittest.main()
