"""Elastic runs: real processes with the real libshoal, and a daemon of the test's own (elastic_daemon.py)."""

import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import types
import typing
import unittest
from pathlib import Path

from support import place

import shoal
from shoal import CheckpointError, ShoalError, StepLost

try:
    import torch

    from shoal import _batches
except ImportError:
    torch = None

from elastic_daemon import ElasticDaemon

WORKER = Path(__file__).resolve().parent / "elastic_worker.py"
ROOT = Path(__file__).resolve().parents[3]
LIBRARY = os.environ.get("SHOAL_LIBRARY") or str(ROOT / "build" / "release" / "libshoal.so.0")
END_S = 400
TINY = {"net": "tiny", "samples": 480, "batch": 48, "epochs": 3}
HAS_LIBRARY = os.path.exists(LIBRARY)


class Group:
    """The ranks of a trial."""

    def __init__(self, test, plan, size, checkpoint=None):
        self.plan = plan
        self.directory = Path(tempfile.mkdtemp(prefix="shoal-elastic-"))
        test.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.out = self.directory / "out"
        self.daemon = ElasticDaemon(size, plan.get("hosts", 1), balance=plan.get("balance", False))
        if checkpoint is not None:
            self.daemon.checkpoint, self.daemon.checkpoint_step = checkpoint
        test.addCleanup(self.daemon.close)
        self.processes = []
        test.addCleanup(self.kill)
        self.start(*range(size))

    def start(self, *numbers):
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_")}
        plan = {**self.plan, "size": len(numbers), "store": str(self.directory / "store")}
        environments = []
        for number in numbers:
            each = {"NUMBER": str(number), "SHOAL_LIBRARY": LIBRARY, "SHOAL_STEP_LOG": str(self.directory / f"steps.{number}")}
            environments.append(each | (self.daemon.environment(number) if plan.get("mode") != "torch" else {}))
        statuses = self.directory / f"statuses.{numbers[0]}"
        command = [sys.executable, str(WORKER), str(self.out), json.dumps(plan), str(statuses), *map(json.dumps, environments)]
        self.processes.append((subprocess.Popen(command, env=inherited), statuses))

    def kill(self):
        for process, _ in self.processes:
            if process.poll() is None:
                process.kill()  # and with it the ranks
                process.wait()

    def lines(self):
        text = self.out.read_text() if self.out.exists() else ""
        return [json.loads(line) for line in text.split("\n")[:-1]]

    def wait_for(self, condition):
        """Until a line fulfils it."""
        until = time.monotonic() + END_S
        while time.monotonic() < until and not any(condition(line) for line in self.lines()):
            time.sleep(0.02)

    def wait(self):
        """The exit statuses by number."""
        ended = {}
        for process, statuses in self.processes:
            process.wait(timeout=END_S)
            ended.update({int(number): status for number, status in json.loads(statuses.read_text()).items()})
        return ended

    def errors(self, number):
        path = self.directory / f"errors.{number}"
        return path.read_text() if path.exists() else ""

    def losses(self):
        """Of the whole batch, by steps applied."""
        parts = collections.defaultdict(dict)
        for line in self.lines():
            if "loss" in line:
                if any(size != line["size"] for _, _, size in parts[line["step"]].values()):
                    parts[line["step"]] = {}  # of a group that was lost with its state
                parts[line["step"]][line["rank"]] = line["loss"], line["weight"], line["size"]
        whole = {step: each for step, each in parts.items() if len(each) == next(iter(each.values()))[2]}
        return {
            step: sum(loss * weight for loss, weight, _ in each.values()) / sum(weight for _, weight, _ in each.values())
            for step, each in whole.items()
        }

    def ends(self):
        return {line["number"]: line for line in self.lines() if "end" in line}


@unittest.skipUnless(torch and HAS_LIBRARY, "needs PyTorch, and libshoal at SHOAL_LIBRARY or in build/release")
class Elastic(unittest.TestCase):
    ran: typing.ClassVar[dict] = {}  # what several tests compare with

    def undisturbed(self, plan_text, size, mode="shoal"):
        if (plan_text, size, mode) not in self.ran:
            group = Group(self, {**json.loads(plan_text), "mode": mode}, size)
            self.assertEqual(set(group.wait().values()), {0}, [group.errors(n) for n in range(size)])
            self.ran[plan_text, size, mode] = group.losses(), {line["digest"] for line in group.ends().values()}
        return self.ran[plan_text, size, mode]

    def assert_same(self, losses, expected, tolerance, least=None):
        """The losses of the steps that all their ranks have told of; a rank that dies takes its line along."""
        self.assertGreaterEqual(len(losses), len(expected) - 2 if least is None else least)
        for step, loss in losses.items():
            self.assertLess(abs(loss - expected[step]), tolerance * abs(expected[step]), f"step {step}")

    def assert_ledger(self, group):
        """Each sample of each epoch in one step that counts, says shoal-train."""
        program = Path(LIBRARY).parent / "shoal-train"
        if program.exists():
            logs = [str(path) for path in group.directory.glob("steps.*")]
            command = [str(program), "ledger", "--samples", str(group.plan["samples"]), *logs]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)

    # ---- as PyTorch's ----

    def compare_with_torch(self, plan, size, tolerance=1e-5):
        losses, digests = self.undisturbed(json.dumps(plan), size)
        expected, _ = self.undisturbed(json.dumps(plan), size, "torch")
        self.assertEqual(len(digests), 1)
        self.assert_same(losses, expected, tolerance, least=len(expected))

    def test_losses_are_those_of_pytorch(self):
        for size in (1, 2, 4):
            with self.subTest(size=size):
                self.compare_with_torch(TINY, size)

    def test_buffers_dropout_tied_weights_and_parameters_that_not_all_ranks_use(self):
        for sets_to_none in (True, False):
            with self.subTest(sets_to_none=sets_to_none):
                plan = {**TINY, "net": "residual", "none": sets_to_none}
                self.compare_with_torch(plan, 2)

    def test_a_parameter_that_no_rank_uses_stays_as_it_is(self):
        for sets_to_none in (True, False):
            group = Group(self, {**TINY, "net": "residual", "none": sets_to_none}, 2)
            self.assertEqual(group.wait(), {0: 0, 1: 0}, group.errors(0))
            self.assertEqual({line["never"] for line in group.ends().values()}, {True})

    def test_gradients_that_are_added_up_and_clipped(self):
        for sets_to_none in (True, False):
            with self.subTest(sets_to_none=sets_to_none):
                self.compare_with_torch({**TINY, "accumulate": True, "clip": 0.1, "none": sets_to_none}, 2)

    def test_reentrant_checkpoints(self):
        """PyTorch's wrapper does not take them with unused parameters: its network computes the same without."""
        plan = {**TINY, "net": "residual"}
        losses, digests = self.undisturbed(json.dumps({**plan, "checkpoints": True}), 2)
        expected, _ = self.undisturbed(json.dumps({**plan, "checkpoints": "plain"}), 2, "torch")
        self.assertEqual(len(digests), 1)
        self.assert_same(losses, expected, 1e-5, least=len(expected))

    @unittest.skipUnless(hasattr(torch, "compile"), "needs PyTorch 2")
    def test_a_compiled_module(self):
        expected, _ = self.undisturbed(json.dumps(TINY), 2)
        for compiled in ("module", "wrapper"):
            with self.subTest(compiled=compiled):
                losses, _ = self.undisturbed(json.dumps({**TINY, "compile": compiled}), 2)
                self.assert_same(losses, expected, 1e-5, least=len(expected))

    def overflow(self, plan, size=2):
        """In the sixth step, on rank 1."""
        group = Group(self, {**plan, "infinite": [1, 5]}, size)
        self.assertEqual(group.wait(), {0: 0, 1: 0}, group.errors(0))
        finite = {(line["number"], line["step"]): line["finite"] for line in group.lines() if "loss" in line}
        self.assertEqual([key for key, value in finite.items() if not value], [key for key in finite if key[1] == 6])
        self.assertEqual(len({line["digest"] for line in group.ends().values()}), 1)

    def test_an_overflow_on_one_rank_is_all_ranks(self):
        self.overflow(TINY)

    def test_autocast(self):
        self.compare_with_torch({**TINY, "amp": True}, 2)

    @unittest.skipUnless(hasattr(torch, "amp") and hasattr(torch.amp, "GradScaler"), "needs a GradScaler for processors")
    def test_a_scaler_takes_an_overflow_on_one_rank_as_everybodys(self):
        plan = {**TINY, "amp": True, "scaler": True, "clip": 1.0}
        self.overflow(plan)
        self.compare_with_torch({**plan, "infinite": [1, 5]}, 2)

    def test_parts_by_speed_count_by_their_samples(self):
        """Rank 1 takes 4 ms for each sample, the other none: it has fewer soon, and gradients are still those of the mean."""
        group = Group(self, {**TINY, "balance": True, "exact": True, "pauses": {"1": 0.004}}, 2)
        self.assertEqual(group.wait(), {0: 0, 1: 0}, group.errors(0))
        lines = [line for line in group.lines() if "loss" in line]
        parts = [line["weight"] for line in lines if line["number"] == 1]
        self.assertEqual(parts[0], 24)
        self.assertLess(parts[-1], 12)
        self.assertLess(max(line["wrong"] for line in lines), 1e-5)
        self.assertEqual(len({line["digest"] for line in group.ends().values()}), 1)
        self.assert_ledger(group)

    # ---- what is refused in a step ----

    def refused(self, odd, sentence, **more):
        group = Group(self, {**TINY, "odd": odd, **more}, 2)
        self.assertEqual(group.wait(), {0: 1, 1: 1})
        for number in range(2):
            self.assertIn(sentence, group.errors(number))

    def test_a_sparse_gradient_is_refused(self):
        self.refused("sparse", "table has a sparse gradient", net="words")

    def test_the_module_without_its_wrapper_is_refused(self):
        self.refused("bare", "applied gradients of one rank")

    def test_a_module_that_has_moved_is_refused(self):
        self.refused("moved", "has moved or changed its type")

    def test_an_error_of_the_program_costs_the_others_a_step(self):
        """It comes when a part of the gradients is on its way. The rank goes on, and the others' processes live."""
        for hosts in (1, 3):
            group = Group(self, {**TINY, "raises": [1, 12], "cap": 0.0001, "hosts": hosts, "net": "residual"}, 3)
            self.assertEqual(set(group.wait().values()), {0}, [group.errors(n) for n in range(3)])
            self.assertEqual([line["raised"] for line in group.lines() if "raised" in line], [12])
            self.assertEqual([line["lost"] for line in group.lines() if "lost" in line], [12, 12])
            self.assertEqual({line["end"] for line in group.ends().values()}, {30})
            self.assertEqual(len({line["digest"] for line in group.ends().values()}), 1)
            self.assert_ledger(group)

    def test_ranks_on_several_hosts_sum_while_they_compute(self):
        losses, _ = self.undisturbed(json.dumps({**TINY, "hosts": 2}), 2)
        expected, _ = self.undisturbed(json.dumps(TINY), 2)
        self.assert_same(losses, expected, 1e-5, least=len(expected))

    # ---- deaths ----

    def die(self, place, step, number=2, **more):
        """One of four ranks is killed; the others' processes live, and train as if nothing had been."""
        plan = {**TINY, **more}
        group = Group(self, {**plan, "deaths": [{"number": number, "place": place, "step": step}]}, 4)
        ends = group.wait()
        self.assertEqual(ends, {n: -9 if n == number else 0 for n in range(4)}, [group.errors(n) for n in range(4)])
        pids = {(line["number"], line["pid"]) for line in group.lines() if "pid" in line}
        self.assertEqual(sorted(n for n, _ in pids), [0, 1, 2, 3])  # one process each, from the first epoch to the end
        self.assertEqual(group.daemon.groups, [4, 3])
        expected, _ = self.undisturbed(json.dumps(plan), 4)
        self.assert_same(group.losses(), expected, 1e-4)
        self.assertEqual({line["end"] for line in group.ends().values()}, {30})
        self.assertEqual(len({line["digest"] for line in group.ends().values()}), 1)
        self.assert_ledger(group)
        return group

    def test_a_rank_dies_in_backward(self):
        group = self.die("backward", 12)
        self.assertEqual([line["lost"] for line in group.lines() if "lost" in line], [12] * 3)

    def test_a_rank_dies_between_the_sums_and_the_step(self):
        self.die("sums", 13)

    def test_a_rank_dies_in_the_optimisers_step(self):
        self.die("optimizer", 13)

    def test_a_rank_dies_between_the_step_and_the_commit(self):
        self.die("step", 14)

    def test_the_rank_that_saves_dies(self):
        for moment in ("save", "saving"):  # before, and with the checkpoint written and not handed over
            with self.subTest(moment=moment):
                self.die(moment, 20, number=0, save_every=10)

    def test_a_rank_dies_when_a_part_of_the_step_is_applied(self):
        """The others' parameters belong to no step; without a checkpoint there is no way back, and with one it is the way."""
        death = {"number": 1, "place": "second", "step": 12}
        group = Group(self, {**TINY, "twice": True, "save_every": 5, "deaths": [death]}, 2)
        self.assertEqual(group.wait(), {0: 0, 1: -9}, group.errors(0))
        self.assertEqual([line["step"] for line in group.lines() if "loss" in line and line["number"] == 0],
                         [*range(1, 13), *range(11, 31)])  # fmt: skip
        expected, _ = self.undisturbed(json.dumps({**TINY, "twice": True}), 2)
        self.assert_same(group.losses(), expected, 1e-4)

    # ---- joins ----

    def join(self, deaths=(), **more):
        """A fourth rank joins three behind step 15; they go on when it waits for its group."""
        plan = {**TINY, **more}
        group = Group(self, {**plan, "deaths": list(deaths), "waits_at": 15}, 3)
        group.wait_for(lambda line: line.get("step") == 15)
        group.start(3)
        group.daemon.wait_for_group_request(3)
        (group.directory / "store.go").touch()
        return plan, group, group.wait()

    def test_a_rank_that_joins_begins_where_the_group_is(self):
        _, group, ends = self.join(net="residual", states=True, noise=True, scaler=True)
        self.assertEqual(set(ends.values()), {0}, [group.errors(n) for n in range(4)])
        self.assertEqual(group.daemon.groups, [3, 4])
        [begin] = [line for line in group.lines() if line["number"] == 3 and "begins" in line][:1]
        self.assertIn(begin["step"], (15, 16))  # the group leaves behind the step in which it hears of the fourth
        self.assertEqual(begin["step"], 10 * begin["begins"] + begin["batch"])
        states = collections.defaultdict(list)  # moments, rates, scale, generators, and the place in the epoch
        for line in group.lines():
            if "state" in line and line["size"] == 4:
                states[line["step"]].append(line["state"])
        self.assertEqual(sorted(states), list(range(begin["step"] + 1, 31)))
        self.assertEqual([(len(each), len(set(each))) for each in states.values()], [(4, 1)] * len(states))
        self.assertEqual(len({line["digest"] for line in group.ends().values()}), 1)
        self.assert_ledger(group)

    def test_a_rank_that_joins_changes_no_loss(self):
        plan, group, ends = self.join()
        self.assertEqual(set(ends.values()), {0}, [group.errors(n) for n in range(4)])
        expected, _ = self.undisturbed(json.dumps(plan), 3)
        self.assert_same(group.losses(), expected, 1e-4)

    def test_a_rank_that_joins_dies_as_it_takes_the_state(self):
        _, group, ends = self.join([{"number": 3, "place": "unpack", "step": 1}])
        self.assertEqual(ends, {0: 0, 1: 0, 2: 0, 3: -9})
        self.assertEqual(group.daemon.groups, [3, 4, 3])
        self.assert_ledger(group)

    def test_the_rank_that_hands_the_state_over_dies(self):
        plan, group, ends = self.join([{"number": 0, "place": "pack", "step": 2}])
        self.assertEqual(ends, {0: -9, 1: 0, 2: 0, 3: 0}, [group.errors(n) for n in range(4)])
        expected, _ = self.undisturbed(json.dumps(plan), 3)
        self.assert_same(group.losses(), expected, 1e-4)
        self.assert_ledger(group)

    # ---- stops ----

    def test_a_stop_saves_and_the_next_attempt_goes_on_there(self):
        group = Group(self, {**TINY, "waits_at": 15}, 2)
        group.wait_for(lambda line: line.get("step") == 15)
        group.daemon.notice("stop")
        (group.directory / "store.go").touch()
        self.assertEqual(group.wait(), {0: 0, 1: 0}, group.errors(0))
        ends = group.ends()
        at = ends[0]["end"]
        self.assertIn(at, (15, 16))
        self.assertEqual({(line["end"], line["stopped"], line["reason"]) for line in ends.values()}, {(at, True, "pause")})
        self.assertEqual(group.daemon.checkpoint_step, at)
        again = Group(self, TINY, 3, (group.daemon.checkpoint, at))
        self.assertEqual(set(again.wait().values()), {0}, again.errors(0))
        self.assertEqual(min(again.losses()), at + 1)
        expected, _ = self.undisturbed(json.dumps(TINY), 2)
        self.assert_same(again.losses(), expected, 1e-4, least=30 - at)

    def test_workers_of_a_loader(self):
        plan = {**TINY, "samples": 192, "epochs": 2}
        expected, _ = self.undisturbed(json.dumps(plan), 2)
        losses, _ = self.undisturbed(json.dumps({**plan, "workers": 1}), 2)
        self.assertEqual(losses, expected)

    def test_the_daemon_is_told_where_the_time_of_steps_goes(self):
        group = Group(self, TINY, 2)
        self.assertEqual(set(group.wait().values()), {0})
        self.assertEqual({number for number, _ in group.daemon.profiles}, {0, 1})
        for _, told in group.daemon.profiles:
            self.assertGreater(told["steps"], 0)
            self.assertGreater(told["collective_ns"], 0)
            self.assertGreater(told["data_ns"], 0)
            self.assertLessEqual(told["collective_ns"] + told["data_ns"], told["step_ns"])


def loader_of(samples, batch, **more):
    return torch.utils.data.DataLoader(list(range(samples)), batch_size=batch, **more)


@unittest.skipUnless(torch, "needs PyTorch")
class Alone(unittest.TestCase):
    """What needs no group."""

    def train(self, run, net, optimizer, epochs, batches=None):
        model = shoal.torch.DistributedDataParallel(net)
        run.carry(model=net, optimizer=optimizer)
        seen = []
        for epoch in run.epochs(epochs):
            for x in run.batches(loader_of(10, 3, shuffle=True)):
                with run.step():
                    optimizer.zero_grad()
                    model(x.float().view(-1, 1)).sum().backward()
                    optimizer.step()
                seen.append((epoch, x.tolist()))
                if batches is not None and len(seen) == batches:
                    run.save()
                    return seen
        return seen

    def fresh(self):
        torch.manual_seed(1)
        net = torch.nn.Linear(1, 1)
        return net, torch.optim.Adam(net.parameters(), lr=0.1)

    def test_a_run_outside_of_shoal_goes_on_in_the_middle_of_an_epoch(self):
        with place():
            run = shoal.init(elastic=True)
            whole_net, optimizer = self.fresh()
            whole = self.train(run, whole_net, optimizer, 3)
            epochs = [sorted(x for e, xs in whole if e == epoch for x in xs) for epoch in range(3)]
            self.assertEqual(epochs, [list(range(10))] * 3)
        with place(SHOAL_RUN_DIR="here") as path:
            net, optimizer = self.fresh()
            before = self.train(shoal.init(elastic=True), net, optimizer, 3, batches=5)
            shoal.init().close()
            net, optimizer = self.fresh()
            run = shoal.init(elastic=True)
            after = self.train(run, net, optimizer, 3)
            self.assertEqual(before + after, whole)
            self.assertEqual(net.weight.item(), whole_net.weight.item())
            self.assertEqual((run.step, run.is_elastic, run.should_stop()), (9, True, False))
            self.assertTrue((path / "here" / "checkpoints" / "5" / "model.safetensors").exists())

    def test_a_lost_step_leaves_all_as_it_was(self):
        with place():
            run = shoal.init(elastic=True)
            net, optimizer = self.fresh()
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
            run.carry(model=net, optimizer=optimizer, scheduler=scheduler)
            list(zip(run.epochs(1), [0]))
            run.size, run._link = 2, None
            forgotten = []
            run._drop_link = types.SimpleNamespace(forget_state=lambda: forgotten.append(1))
            type(run)._group, before = property(lambda self: self._drop_link), type(run)._group
            self.addCleanup(setattr, type(run), "_group", before)
            run._is_loaded, run._enter = True, lambda: None
            drawn = []
            for _ in range(2):
                with run.step() as block:
                    scheduler.step()
                    drawn.append(torch.rand(1).item())
                    raise StepLost("a rank is gone")
                self.assertFalse(block.applied)
            self.assertEqual(drawn[0], drawn[1])
            self.assertEqual((optimizer.param_groups[0]["lr"], scheduler.last_epoch, int(run.step), forgotten), (0.1, 0, 0, []))
            with run.step():
                net(torch.ones(1, 1)).sum().backward()
                optimizer.step()
                raise StepLost("a rank is gone")
            self.assertEqual(forgotten, [1])
            run.size = 1

    def test_a_state_is_taken_in_place(self):
        with place():
            run = shoal.init(elastic=True)
            net, optimizer = self.fresh()
            self.train(run, net, optimizer, 1)
            packed = run._pack()
            moments = optimizer.state_dict()["state"][0]["exp_avg"]
            places, weight = (net.weight.data_ptr(), moments.data_ptr()), net.weight.item()
            self.train_on(run, net, optimizer)
            self.assertNotEqual(net.weight.item(), weight)
            run._unpack(memoryview(packed))
            packed[:] = bytes(len(packed))
            moments = optimizer.state_dict()["state"][0]["exp_avg"]
            self.assertEqual((net.weight.data_ptr(), moments.data_ptr()), places)
            self.assertEqual(net.weight.item(), weight)
            self.assertNotEqual(moments.item(), 0)

    def test_a_state_made_lazily_is_taken_by_one_that_has_none(self):
        with place():
            run = shoal.init(elastic=True)
            net, optimizer = self.fresh()
            self.train(run, net, optimizer, 1)
            packed, moment = run._pack(), optimizer.state_dict()["state"][0]["exp_avg"].item()
            other, fresh = self.fresh()
            run._carried = {"model": other, "optimizer": fresh}
            run._unpack(memoryview(packed))
            packed[:] = bytes(len(packed))
            self.assertEqual(fresh.state_dict()["state"][0]["exp_avg"].item(), moment)
            self.assertEqual(other.weight.item(), net.weight.item())

    @staticmethod
    def train_on(run, net, optimizer):
        with run.step():
            optimizer.zero_grad()
            net(torch.ones(1, 1)).sum().backward()
            optimizer.step()

    def refusal(self, call, kind=ShoalError):
        with self.assertRaises(kind) as caught:
            call()
        return str(caught.exception)

    def test_modules_that_are_refused_by_name(self):
        nn, wrap = torch.nn, shoal.torch.DistributedDataParallel
        fsdp = type("FullyShardedDataParallel", (nn.Linear,), {})
        with place():
            self.refusal(lambda: shoal.init() and wrap(nn.Linear(1, 1)))
        with place():
            shoal.init(elastic=True)
            for word, module in (
                ("SyncBatchNorm", nn.Sequential(nn.SyncBatchNorm(3))),
                ("FullyShardedDataParallel", nn.Sequential(fsdp(1, 1))),
                ("sparse=False", nn.Sequential(nn.Embedding(3, 2, sparse=True))),
                ("float64", nn.Linear(1, 1).double()),
                ("complex64", nn.Linear(1, 1).to(torch.complex64)),
                ("EmbeddingBag with sparse", nn.Sequential(nn.EmbeddingBag(3, 2, sparse=True))),
                ("DistributedDataParallel", nn.Sequential(wrap(nn.Linear(1, 1)))),
            ):
                self.assertIn(word, self.refusal(lambda module=module: wrap(module)))

    def test_modules_of_torch_distributed_that_are_refused_by_name(self):
        dist, wrap = torch.distributed, shoal.torch.DistributedDataParallel
        with place() as path:
            shoal.init(elastic=True)
            dist.init_process_group("gloo", init_method=f"file://{path}/store", rank=0, world_size=1)
            try:
                wrapped = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
                self.assertIn("is a DistributedDataParallel, which sums", self.refusal(lambda: wrap(wrapped)))
                try:
                    from torch.distributed.fsdp import fully_shard
                except (ImportError, ValueError):
                    return  # before PyTorch 2.6; that of 1.13 cannot even be imported by Python 3.11
                mesh = dist.device_mesh.init_device_mesh("cpu", (1,))
                sharded = fully_shard(torch.nn.Linear(2, 2), mesh=mesh)
                self.assertIn("FSDPLinear, whose parameters are spread", self.refusal(lambda: wrap(sharded)))
            finally:
                dist.destroy_process_group()

    def test_outputs_that_cannot_be_followed_are_refused(self):
        class Odd(torch.nn.Linear):
            def forward(self, x):
                return types.SimpleNamespace(out=super().forward(x))

        with place():
            run = shoal.init(elastic=True)
            net = Odd(1, 1)
            model = shoal.torch.DistributedDataParallel(net)
            self.assertIn("wrapped already", self.refusal(lambda: shoal.torch.DistributedDataParallel(net)))
            run.size, run._in_block = 2, True
            self.assertIn("gave a SimpleNamespace", self.refusal(lambda: model(torch.ones(1, 1))))
            run.size, run._in_block = 1, False

    def test_calls_that_are_refused(self):
        with place():
            shoal.init()
            self.assertIn("before", self.refusal(lambda: shoal.init(elastic=True)))
        with place():
            run = shoal.init(elastic=True)
            self.assertIn("run.carry", self.refusal(lambda: next(iter(run.epochs(1)))))
            self.refusal(lambda: run.carry(model=3), TypeError)
            self.refusal(lambda: run.carry(elastic=torch.nn.Linear(1, 1)), TypeError)
            net, optimizer = self.fresh()
            run.carry(model=net, optimizer=optimizer)
            for call in (run.load, run.barrier, lambda: run.all_gather(1), lambda: run.broadcast(1)):
                self.refusal(call)
            with run.step():
                self.assertIn("behind the block", self.refusal(run.save))
            self.assertIn("whole state", self.refusal(lambda: run.save(sharded=True)))
            self.refusal(lambda: run.carry(model=net))
            state = run._state()
            self.assertIn("another program", self.refusal(lambda: run._take({"net": 1}), CheckpointError))
            state["model"] = {"weight": torch.zeros(2, 2)}
            self.assertIn("model does not take", self.refusal(lambda: run._take(state), CheckpointError))

    def test_loaders_that_are_refused(self):
        data = torch.utils.data
        sampler = data.WeightedRandomSampler([1.0] * 10, 10)

        class Stream(data.IterableDataset):
            def __iter__(self):
                return iter(range(10))

        stream = data.DataLoader(Stream(), batch_size=2)
        for loader in (loader_of(10, 2, sampler=sampler), stream, loader_of(10, None), loader_of(1, 2, drop_last=True)):
            self.refusal(lambda loader=loader: _batches.Feed(loader, 0, 1, None))
        self.refusal(lambda: _batches.Feed([1, 2], 0, 1, None), TypeError)
        feed = _batches.Feed(loader_of(10, 2, sampler=sampler), 0, 1, lambda epoch: [3, 1, 2, 0])
        self.assertEqual([feed.part(at, 0, 2).tolist() for at in range(feed.steps)], [[3, 1], [2, 0]])

    def test_each_sample_comes_once_however_parts_change(self):
        for samples, batch in ((100, 8), (101, 8), (105, 8), (7, 7), (9, 4)):
            feeds = [_batches.Feed(loader_of(samples, batch, shuffle=True), 2, 5, None) for _ in range(3)]
            seen = []
            for at in range(feeds[0].steps):
                first, total = feeds[0].batch(at)
                self.assertEqual(first, at * batch)
                for _ in range(1 + at % 2):  # a lost step comes again
                    cuts = [0, total * (1 + at % 3) // 5, total * 3 // 4, total]
                    step = [feed.part(at, a, b - a).tolist() for feed, a, b in zip(feeds, cuts, cuts[1:]) if b > a]
                seen += sum(step, [])
            self.assertEqual(sorted(seen), list(range(samples)))
            self.assertNotEqual(seen, list(range(samples)))
