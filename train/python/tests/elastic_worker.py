"""A rank of an elastic training, for test_elastic.py: trains a small network, writes a line of JSON for each step that it
applied, and dies, or does something odd, where its plan says.

usage: elastic_worker.py OUT PLAN STATUSES ENVIRONMENT...

PLAN is JSON; "mode" torch: the same by PyTorch's DistributedDataParallel over gloo. ENVIRONMENT is JSON, one for each rank; a
rank is a process made by fork, so that PyTorch is imported once. STATUSES: a file for the ranks' exit statuses."""

import ctypes
import hashlib
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
        if self.checkpoints == "plain":
            h = self.third(h).tanh()
        elif self.checkpoints:
            h = torch.utils.checkpoint.checkpoint(lambda h: self.third(h).tanh(), h, use_reentrant=True)
        h = self.second(h.relu())
        return self.last(self.drop(self.sometimes(h) if uses_all else h))


class Words(nn.Module):
    """Its embedding has sparse gradients, though no layer says so."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(8, 4))

    def forward(self, x):
        return nn.functional.embedding(x[:, 0].abs().long() % 8, self.table, sparse=True)


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
    if plan["net"] == "words":
        net = Words()
    return net, torch.utils.data.TensorDataset(inputs, targets), nn.functional.cross_entropy


def scaler_of(plan):
    """A GradScaler works on processors from PyTorch 2.3 on."""
    has_one = plan.get("scaler") and hasattr(torch.amp, "GradScaler")
    return torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=4) if has_one else None


def pieces(value):
    """All values in a state, as bytes."""
    if isinstance(value, torch.Tensor):
        yield value.detach().contiguous().numpy().tobytes()
    elif isinstance(value, dict):
        for key, item in value.items():
            yield repr(key).encode()
            yield from pieces(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from pieces(item)
    else:
        yield repr(value).encode()


def digest(value):
    """Equal for equal states, of a module for equal parameters: statistics of a BatchNorm are a rank's own behind its last
    forward."""
    return hashlib.blake2b(
        b" ".join(pieces(list(value.parameters()) if isinstance(value, nn.Module) else value)), digest_size=8
    ).hexdigest()


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
        self.scaler = scaler_of(plan)
        self.noise = torch.Generator()
        self.noise.manual_seed(5)
        self.deaths = [each for each in plan.get("deaths", []) if each["number"] == self.number]

    def dies(self, place, step):
        if any(each["place"] == place and each["step"] == step for each in self.deaths):
            die()

    def say(self, **values):
        with open(self.out, "a") as file:
            print(json.dumps({"number": self.number, **values}), file=file)

    def update(self, loss, step):
        """From the loss to the applied step."""
        plan, scaler = self.plan, self.scaler
        if any(each["place"] == "backward" and each["step"] == step for each in self.deaths):
            next(self.net.parameters()).register_hook(lambda gradient: die())
        (loss if scaler is None else scaler.scale(loss)).backward()
        if scaler is not None:
            scaler.unscale_(self.optimizer)
        if plan.get("clip"):
            torch.nn.utils.clip_grad_norm_(self.net.parameters(), plan["clip"])
        self.dies("sums", step)
        finite = all(p.grad is None or bool(torch.isfinite(p.grad).all()) for p in self.net.parameters())
        if any(each["place"] == "optimizer" and each["step"] == step for each in self.deaths):
            self.optimizer.step(die)
        if scaler is not None:
            scaler.step(self.optimizer)
            scaler.update()
        elif finite:
            self.optimizer.step()
        self.dies("step", step)
        self.scheduler.step()
        return finite

    def zero(self):
        self.optimizer.zero_grad(set_to_none=self.plan.get("none", True))

    def call(self, model, x, step):
        if self.plan.get("noise"):
            x = x + 0.1 * torch.randn(x.shape, generator=self.noise)
        extra = {"uses_all": step % 2 == 0 or self.number % 2 == 0} if self.plan["net"] == "residual" else {}
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bool(self.plan.get("amp"))):
            return model(x.double() if self.plan.get("odd") == "moved" else x, **extra)

    def forward_backward(self, model, x, y, step):
        self.zero()
        time.sleep(self.plan.get("pauses", {}).get(str(self.number), 0) * len(x))  # as a slow rank for each sample
        if self.plan.get("accumulate") and len(x) >= 2:
            half = len(x) // 2
            with model.no_sync():
                first = self.loss(self.call(model, x[:half], step), y[:half]) * (half / len(x))
                first.backward()
            second = self.loss(self.call(model, x[half:], step), y[half:]) * ((len(x) - half) / len(x))
            return second, (first + second).item()
        loss = self.loss(self.call(model, x, step), y)
        value = loss.item()
        if self.plan.get("infinite") == [self.number, step]:
            loss = loss * float("inf")
        return loss, value

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
        net = torch.compile(self.net, backend="aot_eager") if plan.get("compile") == "module" else self.net
        model = shoal.torch.DistributedDataParallel(net, bucket_cap_mb=plan.get("cap", 25))
        if plan.get("compile") == "wrapper":
            model = torch.compile(model, backend="aot_eager")
        if plan.get("odd") == "moved":
            net.double()
        carried = {"model": self.net, "optimizer": self.optimizer, "scheduler": self.scheduler, "noise": self.noise}
        run.carry(**carried, **({} if self.scaler is None else {"scaler": self.scaler}))
        workers = plan.get("workers", 0)
        loader = torch.utils.data.DataLoader(self.data, batch_size=plan["batch"], shuffle=True, num_workers=workers)
        self.hook_handing_over(run)
        never = self.net.never.weight.detach().clone() if plan["net"] == "residual" else None
        while True:
            try:
                self.loop(run, self.net if plan.get("odd") == "bare" else model, loader)
                break
            except ArithmeticError:
                self.say(raised=int(run.step))
        more = (
            {}
            if never is None
            else {"never": bool((self.net.never.weight == never).all()) and self.net.never.weight.grad is None}
        )
        ended = {"digest": digest(self.net), "stopped": run.should_stop(), "reason": run.stop_reason}
        self.say(end=int(run.step), pid=os.getpid(), **ended, **more)
        run.close()

    def loop(self, run, model, loader):
        plan = self.plan
        for epoch in run.epochs(plan["epochs"]):
            self.say(begins=epoch, batch=run._batch, step=int(run.step), pid=os.getpid())
            for x, y in run.batches(loader):
                finite = value = None
                before, more = int(run.step), {}
                with run.step() as block:
                    loss, value = self.forward_backward(model, x, y, before)
                    if plan.get("raises") == [self.number, before]:
                        plan["raises"] = None
                        self.raise_in_backward()
                    wanted = self.exact(run, loader, epoch) if plan.get("exact") else None
                    finite = self.update(loss, before)
                    if wanted is not None:
                        more["wrong"] = self.distance(wanted)
                    if plan.get("twice"):  # as of two networks that are trained in turn
                        loss, _ = self.forward_backward(model, x, y, before)
                        self.dies("second", before)
                        self.update(loss, before)
                if not block.applied:
                    self.say(lost=before)
                    continue
                if plan.get("states"):
                    state = {name: each for name, each in run._state().items() if name != "model"}
                    more["state"] = digest([list(self.net.parameters()), state])
                place = {"rank": run.rank, "size": run.size, "epoch": epoch}
                self.say(step=int(run.step), loss=value, weight=len(x), finite=finite, **place, **more)
                while plan.get("waits_at") == run.step and not os.path.exists(plan["store"] + ".go"):
                    time.sleep(0.01)
                if plan.get("save_every") and run.step % plan["save_every"] == 0:
                    for place, attribute in (("save", "_save"), ("saving", "save_commit")):
                        if any(each["place"] == place and each["step"] == run.step for each in self.deaths):
                            setattr(run if place == "save" else run._link, attribute, lambda *_: die())
                    run.save()

    def raise_in_backward(self):
        """In the hook of the gradient that comes last, when others are on their way."""

        def fail(gradient):
            handle.remove()
            raise ArithmeticError("of the program's own")

        handle = next(self.net.parameters()).register_hook(fail)

    def exact(self, run, loader, epoch):
        """Gradients of the mean over the batch of all ranks."""
        first, total = run._part[:2]
        order = _batches.order_of(loader, epoch, run.seed, None)
        x, y = self.data[order[first : first + total]]
        return torch.autograd.grad(self.loss(self.net(x), y), list(self.net.parameters()))

    def distance(self, wanted):
        """Of the gradients from those that are wanted, relative to the largest."""
        pairs = list(zip(wanted, (p.grad for p in self.net.parameters())))
        return max((a - b).abs().max().item() for a, b in pairs) / max(a.abs().max().item() for a, _ in pairs)

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
