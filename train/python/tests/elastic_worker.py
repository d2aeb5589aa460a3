"""A rank of an elastic training, for test_elastic.py: trains a small network, writes a line of JSON for each step that it
applied, and dies, or does something odd, where its plan says.

usage: elastic_worker.py OUT PLAN STATUSES ENVIRONMENT...

PLAN is JSON; "mode" torch: the same by PyTorch's DistributedDataParallel over gloo. ENVIRONMENT is JSON, one for each rank; a
rank is a process made by fork, so that PyTorch is imported once. STATUSES: a file for the ranks' exit statuses."""

import ctypes
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples" / "pytorch-shoal"))

import torch
import torch.utils.checkpoint
from torch import nn

import shoal
from shoal import _batches


class Residual(nn.Module):
    """A perceptron with what hurts: buffers, dropout, tied weights, a part that not every rank uses, and one that none does."""

    def __init__(self, checkpoints):
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Linear(16, 16)
        self.second.weight = self.first.weight
        self.sometimes, self.never, self.last = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 4)
        self.drop = nn.Dropout(0.1)
        self.checkpoints, self.third = checkpoints, nn.Linear(16, 16) if checkpoints else None

    def forward(self, x, uses_all=True):
        h = self.norm(self.first(x))
        if self.checkpoints:
            h = torch.utils.checkpoint.checkpoint(lambda h: self.third(h).tanh(), h, use_reentrant=True)
        h = self.second(h.relu())
        return self.last(self.drop(self.sometimes(h) if uses_all else h))


def make(plan):
    """The network, its samples, and a loss."""
    torch.manual_seed(1)
    if plan["net"] in ("mlp", "cnn", "gpt"):
        import parts

        net, samples = parts.build(plan["net"], 32)
        picked = torch.arange(0, len(samples), max(1, len(samples) // plan["samples"]))[: plan["samples"]]
        inputs, targets = samples[picked]
        return net, torch.utils.data.TensorDataset(inputs, targets), nn.functional.cross_entropy
    generator = torch.Generator().manual_seed(3)
    inputs = torch.randn(plan["samples"], 16, generator=generator)
    targets = torch.randint(4, (plan["samples"],), generator=generator)
    net = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4))
    if plan["net"] == "residual":
        net = Residual(plan.get("checkpoints", False))
    return net, torch.utils.data.TensorDataset(inputs, targets), nn.functional.cross_entropy


def digest(net):
    """Equal for equal parameters; statistics of a BatchNorm are a rank's own behind its last forward."""
    import hashlib

    return hashlib.blake2b(b"".join(t.detach().numpy().tobytes() for t in net.parameters()), digest_size=8).hexdigest()


def die():
    os.kill(os.getpid(), signal.SIGKILL)


class Train:
    def __init__(self, out, plan):
        self.out, self.plan = out, plan
        self.number = int(os.environ["NUMBER"])
        torch.set_num_threads(1)
        self.net, self.data, self.loss = make(plan)
        kind = torch.optim.SGD if plan.get("optimizer") == "sgd" else torch.optim.AdamW
        self.optimizer = kind(self.net.parameters(), lr=plan.get("lr", 0.01))
        self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.99)
        self.deaths = [each for each in plan.get("deaths", []) if each["number"] == self.number]

    def dies(self, place, step):
        if any(each["place"] == place and each["step"] == step for each in self.deaths):
            die()

    def say(self, **values):
        with open(self.out, "a") as file:
            print(json.dumps({"number": self.number, **values}), file=file)

    def update(self, loss, step):
        """From the loss to the applied step."""
        plan = self.plan
        if any(each["place"] == "backward" and each["step"] == step for each in self.deaths):
            next(self.net.parameters()).register_hook(lambda gradient: die())
        loss.backward()
        if plan.get("clip"):
            torch.nn.utils.clip_grad_norm_(self.net.parameters(), plan["clip"])
        self.dies("sums", step)
        finite = all(p.grad is None or bool(torch.isfinite(p.grad).all()) for p in self.net.parameters())
        if finite:
            self.optimizer.step()
        self.dies("step", step)
        self.scheduler.step()
        return finite

    def zero(self):
        self.optimizer.zero_grad(set_to_none=self.plan.get("none", True))

    def forward_backward(self, model, x, y, step):
        self.zero()
        extra = {"uses_all": step % 2 == 0 or self.number % 2 == 0} if self.plan["net"] == "residual" else {}
        if self.plan.get("accumulate") and len(x) >= 2:
            half = len(x) // 2
            with model.no_sync():
                first = self.loss(model(x[:half], **extra), y[:half]) * (half / len(x))
                first.backward()
            second = self.loss(model(x[half:], **extra), y[half:]) * ((len(x) - half) / len(x))
            return second, (first + second).item()
        loss = self.loss(model(x, **extra), y)
        if self.plan.get("infinite") == [self.number, step]:
            loss = loss * float("inf")
        return loss, loss.item()

    def by_torch(self):
        import torch.distributed as dist

        rank, size = self.number, self.plan["size"]
        dist.init_process_group("gloo", init_method=f"file://{self.plan['store']}", rank=rank, world_size=size)
        model = nn.parallel.DistributedDataParallel(self.net, find_unused_parameters=self.plan["net"] == "residual")
        loader = torch.utils.data.DataLoader(self.data, batch_size=self.plan["batch"], shuffle=True)
        step = 0
        for epoch in range(self.plan["epochs"]):
            feed = _batches.Feed(loader, epoch, 7, None)
            for at in range(feed.steps):
                total = feed.batch(at)[1]
                begin, end = total * rank // size, total * (rank + 1) // size
                x, y = feed.part(at, begin, end - begin)
                loss, value = self.forward_backward(model, x, y, step)
                finite = self.update(loss, step)
                step += 1
                self.say(step=step, loss=value, weight=(end - begin) / total, rank=rank, size=size, epoch=epoch, finite=finite)
        self.say(end=step, digest=digest(self.net))
        dist.barrier()
        os._exit(0)  # gloo may hang at the end of a process whose peers are gone

    def by_shoal(self):
        plan = self.plan
        run = shoal.init(elastic=True)
        net = torch.compile(self.net, backend="aot_eager") if plan.get("compile") else self.net
        model = shoal.torch.DistributedDataParallel(net)
        run.carry(model=self.net, optimizer=self.optimizer, scheduler=self.scheduler)
        workers = plan.get("workers", 0)
        loader = torch.utils.data.DataLoader(self.data, batch_size=plan["batch"], shuffle=True, num_workers=workers)
        self.hook_handing_over(run)
        for epoch in run.epochs(plan["epochs"]):
            self.say(begins=epoch, batch=run._batch, step=int(run.step))
            for x, y in run.batches(loader):
                finite = value = None
                before = int(run.step)
                with run.step() as block:
                    loss, value = self.forward_backward(model, x, y, before)
                    finite = self.update(loss, before)
                    if plan.get("twice"):  # as of two networks that are trained in turn
                        loss, _ = self.forward_backward(model, x, y, before)
                        self.dies("second", before)
                        self.update(loss, before)
                if not block.applied:
                    self.say(lost=before)
                    continue
                place = {"rank": run.rank, "size": run.size, "epoch": epoch}
                self.say(step=int(run.step), loss=value, weight=len(x), finite=finite, **place)
                while plan.get("waits_at") == run.step and not os.path.exists(plan["store"] + ".go"):
                    time.sleep(0.01)
                if plan.get("save_every") and run.step % plan["save_every"] == 0:
                    if any(each["place"] == "save" and each["step"] == run.step for each in self.deaths):
                        run._save = lambda *_: die()
                    run.save()
        self.say(end=int(run.step), digest=digest(self.net), stopped=run.should_stop(), reason=run.stop_reason)
        run.close()

    def hook_handing_over(self, run):
        """Dies as the one that hands the state over, or as the one that takes it; "step" counts the calls."""
        for place in ("pack", "unpack"):
            wanted = [each["step"] for each in self.deaths if each["place"] == place]
            if wanted:
                original, calls = getattr(run, "_" + place), []

                def call(*arguments, original=original, calls=calls, wanted=wanted):
                    calls.append(1)
                    if len(calls) in wanted:
                        die()
                    return original(*arguments)

                setattr(run, "_" + place, call)


def rank(out, plan, environment):
    """In a child process: the exit status."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    os.environ.update(environment)
    sys.stderr = open(f"{Path(out).parent}/errors.{environment['NUMBER']}", "w", buffering=1)
    status = 1
    try:
        train = Train(out, plan)
        train.by_torch() if plan.get("mode") == "torch" else train.by_shoal()
        status = 0
    except BaseException:
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    out, plan, statuses, *environments = sys.argv[1:]
    pids = {}
    for environment in map(json.loads, environments):
        pids[environment["NUMBER"]] = os.fork()
        if pids[environment["NUMBER"]] == 0:
            rank(out, json.loads(plan), environment)
    ended = {number: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for number, pid in pids.items()}
    Path(statuses).write_text(json.dumps(ended))
