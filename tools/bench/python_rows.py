"""The programs that tools/bench/python measures, one a mode; each appends its results to a file, a JSON object a line.

usage: python_rows.py MODE OUT LAYERS COUNT [MORE]"""

import contextlib
import json
import os
import signal
import statistics
import sys
import threading
import time

DURABLE_S = 300  # a save that takes longer to be durable has failed
WIDTH, WORDS, PLACES = 768, 50257, 1024
PAUSE_S = 10.0  # how long the daemon is stopped


def shapes(layers):
    """Name and shape of each weight of GPT-2 (small: 12 layers, 148 tensors, 124 million elements)."""
    yield "wte.weight", (WORDS, WIDTH)
    yield "wpe.weight", (PLACES, WIDTH)
    for i in range(layers):
        for part in ("ln_1", "ln_2"):
            yield f"h.{i}.{part}.weight", (WIDTH,)
            yield f"h.{i}.{part}.bias", (WIDTH,)
        for part, inputs, outputs in (("attn.c_attn", 1, 3), ("attn.c_proj", 1, 1), ("mlp.c_fc", 1, 4), ("mlp.c_proj", 4, 1)):
            yield f"h.{i}.{part}.weight", (inputs * WIDTH, outputs * WIDTH)
            yield f"h.{i}.{part}.bias", (outputs * WIDTH,)
    yield "ln_f.weight", (WIDTH,)
    yield "ln_f.bias", (WIDTH,)


def training_state(layers):
    """Weights and AdamW's two moments of each: random, since equal chunks would be stored once."""
    import torch

    torch.manual_seed(1)
    weights = {name: torch.randn(shape) for name, shape in shapes(layers)}
    moments = {i: {"step": 1, "exp_avg": torch.randn_like(w), "exp_avg_sq": torch.rand_like(w)} for i, w in enumerate(weights.values())}
    groups = [{"lr": 1e-3, "betas": (0.9, 0.999), "params": list(moments)}]
    return {"model": weights, "optimizer": {"state": moments, "param_groups": groups}}


def tensors(state):
    import torch

    if isinstance(state, torch.Tensor):
        return [state]
    return [t for value in state.values() for t in tensors(value)] if isinstance(state, dict) else []


def change(state):
    for tensor in tensors(state):
        tensor.add_(0.001)


class Copy:
    """One warm copy of the state: into memory that has been written before."""

    def __init__(self, state):
        self.sources = tensors(state)
        self.bytes = sum(t.numel() * t.element_size() for t in self.sources)
        self.targets = [t.clone() for t in self.sources]

    def seconds(self):
        began = time.perf_counter()
        for source, target in zip(self.sources, self.targets):
            target.copy_(source)
        return time.perf_counter() - began


class Loop:
    """Steps of a training, products of matrices on one thread: what of their time a save takes while it is under way."""

    def __init__(self):
        import torch

        self.a, self.b = torch.randn(768, 768), torch.randn(768, 768)

    def step(self):
        began = time.perf_counter()
        self.a @ self.b
        return time.perf_counter() - began

    def usual(self):
        with one_thread():
            return statistics.median(self.step() for _ in range(30))

    def lost_until(self, is_over, usual):
        """Steps until is_over(); the seconds that they took beyond the usual."""
        until = time.monotonic() + DURABLE_S
        lost = 0.0
        with one_thread():
            while not is_over():
                if time.monotonic() > until:
                    raise TimeoutError(f"the save was not durable after {DURABLE_S} s")
                lost += self.step() - usual
        return lost


@contextlib.contextmanager
def one_thread():
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def say(out, **values):
    with open(out, "a") as file:
        print(json.dumps(values), file=file)


def each_save(out, layers, count, save):
    """Saves of a state that changes as a whole, one copy before each. save(state, number) gives a function that says whether
    the save is durable."""
    state = training_state(layers)
    copy, loop = Copy(state), Loop()
    copy.seconds()
    for number in range(1, count + 1):
        change(state)
        usual, one_copy = loop.usual(), copy.seconds()
        began = time.perf_counter()
        is_durable = save(state, number)
        held = time.perf_counter() - began
        lost = held + loop.lost_until(is_durable, usual)
        say(out, number=number, bytes=copy.bytes, copy=one_copy, held=held, lost=lost, durable=time.perf_counter() - began)


def waits(out, layers, count):
    """Saves with nothing beside them."""
    import shoal

    run = shoal.init()
    state = training_state(layers)
    whole = sum(t.numel() * t.element_size() for t in tensors(state))
    for number in range(1, count + 1):
        change(state)
        began = time.perf_counter()
        run.save(state, step=number)
        wait_durable(run, number)
        say(out, number=number, bytes=whole, durable=time.perf_counter() - began)


def wait_durable(run, number):
    until = time.monotonic() + DURABLE_S
    while run.durable_step < number:
        if time.monotonic() > until:
            raise TimeoutError(f"the save was not durable after {DURABLE_S} s")
        time.sleep(0.005)


def saves(out, layers, count):
    import shoal

    run = shoal.init()

    def save(state, number):
        run.save(state, step=number)
        return lambda: run.durable_step >= number

    each_save(out, layers, count, save)


def torch_saves(out, layers, count, directory):
    import torch

    def save(state, number):
        del number
        torch.save(state, os.path.join(directory, "torch.pt"))
        with open(os.path.join(directory, "torch.pt"), "rb") as file:
            flush = threading.Thread(target=os.fsync, args=[os.dup(file.fileno())])
        flush.start()
        return lambda: not flush.is_alive()

    each_save(out, layers, count, save)


def async_saves(out, layers, count, directory):
    import torch.distributed
    import torch.distributed.checkpoint

    store = torch.distributed.FileStore(os.path.join(directory, "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)

    def save(state, number):
        return torch.distributed.checkpoint.async_save(state, checkpoint_id=os.path.join(directory, f"dcp{number % 2}")).done

    each_save(out, layers, count, save)
    torch.distributed.destroy_process_group()


def sent_bytes():
    """What this network namespace has sent on its link so far."""
    with open("/proc/self/net/dev") as file:
        return next(int(line.split(":")[1].split()[8]) for line in file if line.strip().startswith("eth0:"))


def changes(out, layers, count):
    """Saves of the weights alone, of which from one to the next some here and there change: a tenth of the bytes."""
    import shoal

    run = shoal.init()
    model = training_state(layers)["model"]
    blocks = [list(model)[2 + 12 * i : 14 + 12 * i] for i in range(layers)]
    names = [block[6] for block in blocks] + [block[4] for block in blocks[1::4]]  # attn.c_proj, and some attn.c_attn
    whole, changed = Copy(model).bytes, sum(model[name].numel() * 4 for name in names)
    for number in range(1, count + 1):
        before, began = sent_bytes(), time.perf_counter()
        run.save({"model": model}, step=number)
        wait_durable(run, number)
        say(out, number=number, bytes=whole, changed=changed, sent=sent_bytes() - before, durable=time.perf_counter() - began)
        for name in names:
            model[name].add_(0.001)


def timed_calls(call, count, between=None):
    """Nanoseconds of each call(step)."""
    times = [0] * count
    clock = time.perf_counter_ns
    for step in range(count):
        if between is not None and step == count // 2:
            between()
        began = clock()
        call(step)
        times[step] = clock() - began
    return times


def summary(times):
    times = sorted(times)
    return {"calls": len(times), "median_us": times[len(times) // 2] / 1000, "late_us": times[len(times) * 99 // 100] / 1000}


SCALARS = {f"loss/part{i}": 0.1 * i for i in range(10)}


def reports(out, layers, count, daemon):
    """Reports while the daemon (a process id) stands still for a while."""
    import shoal

    del layers
    daemon = int(daemon)
    run = shoal.init()

    def stop():
        os.kill(daemon, signal.SIGSTOP)
        timer = threading.Timer(PAUSE_S, os.kill, [daemon, signal.SIGCONT])
        timer.start()

    began = time.perf_counter()
    times = timed_calls(lambda step: run.report(SCALARS, step=step), count, stop)
    called = time.perf_counter() - began
    run.flush(120)
    say(out, called=called, flushed=time.perf_counter() - began, **summary(times))


def json_lines(out, layers, count, directory):
    del layers
    with open(os.path.join(directory, "lines.jsonl"), "w", buffering=1) as file:
        times = timed_calls(lambda step: file.write(json.dumps({"step": step, **SCALARS}) + "\n"), count)
    say(out, **summary(times))


def tensorboard(out, layers, count, directory):
    from torch.utils.tensorboard import SummaryWriter

    del layers
    with SummaryWriter(directory) as writer:
        def call(step):
            for name, value in SCALARS.items():
                writer.add_scalar(name, value, step)

        times = timed_calls(call, count // 10)
    say(out, **summary(times))


def mlflow(out, layers, count, directory):
    import mlflow as library

    del layers
    library.set_tracking_uri(f"sqlite:///{directory}/mlflow.db")
    with library.start_run():
        times = timed_calls(lambda step: library.log_metrics(SCALARS, step=step), count // 1000)
    say(out, **summary(times))


WIDE = {5: 1200, 25: 2800, 100: 5700}  # millions of parameters -> width of the hidden layers


def perceptron(batch, millions=5):
    """A network of so many parameters, a batch of data, and an optimiser with two moments of each."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(1)
    wide = WIDE[millions]
    net = nn.Sequential(nn.Linear(784, wide), nn.ReLU(), *(part for _ in range(3) for part in (nn.Linear(wide, wide), nn.ReLU())), nn.Linear(wide, 10))
    return net, torch.randn(batch, 784), torch.randint(10, (batch,)), torch.optim.AdamW(net.parameters(), lr=1e-4)


def Flat(parameter):
    """A module whose gradient is all there at once."""
    import torch

    class Sum(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.parameter = parameter

        def forward(self):
            return self.parameter.sum()

    return Sum()


def one_step(model, optimizer, x, y):
    from torch.nn.functional import cross_entropy

    optimizer.zero_grad(set_to_none=True)
    cross_entropy(model(x), y).backward()
    optimizer.step()


def elastic_steps(out, layers, count, batch):
    """Steps of an elastic trial, and before each the same without a block and without sums. `batch`: samples of each rank."""
    del layers
    import shoal

    run = shoal.init(elastic=True)
    net, x, y, optimizer = perceptron(int(batch))
    model = shoal.torch.DistributedDataParallel(net)
    run.carry(model=net, optimizer=optimizer)
    times = ([], [])
    while run.step < count and not run.should_stop():
        began = time.perf_counter()
        one_step(net, optimizer, x, y)  # the block before has brought the ranks together
        times[0].append(time.perf_counter() - began)
        began = time.perf_counter()
        with run.step():
            one_step(model, optimizer, x, y)
        times[1].append(time.perf_counter() - began)
    if run.rank == 0:
        bare, summed = (statistics.median(each[len(each) // 5:]) for each in times)
        say(out, bare=bare, summed=summed, size=run.size)


def torch_steps(out, layers, count, directory, batch):
    """The same of two processes by PyTorch's DistributedDataParallel over gloo."""
    del layers
    rank = 0 if os.fork() else 1
    import torch.distributed
    from torch.nn.parallel import DistributedDataParallel

    torch.distributed.init_process_group("gloo", init_method=f"file://{directory}/store", rank=rank, world_size=2)
    net, x, y, optimizer = perceptron(int(batch))
    model = DistributedDataParallel(net, gradient_as_bucket_view=True)
    times = ([], [])
    for number in range(2 * count):
        torch.distributed.barrier()  # as the end of a block
        began = time.perf_counter()
        one_step(model if number % 2 else net, optimizer, x, y)
        times[number % 2].append(time.perf_counter() - began)
    if rank == 0:
        bare, summed = (statistics.median(each[len(each) // 5:]) for each in times)
        say(out, bare=bare, summed=summed)
    torch.distributed.barrier()
    os._exit(0)  # gloo may hang at the end of a process whose peers are gone


def elastic_sums(out, layers, count, batch, millions):
    """As elastic_steps, of a network of so many parameters; and the seconds of a sum of all its gradients behind which nothing is hidden."""
    del layers
    import shoal
    import torch

    run = shoal.init(elastic=True)
    net, x, y, optimizer = perceptron(int(batch), int(millions))
    model = shoal.torch.DistributedDataParallel(net)
    flat = torch.nn.Parameter(torch.zeros(sum(p.numel() for p in net.parameters())))
    alone = shoal.torch.DistributedDataParallel(Flat(flat))
    run.carry(model=net, optimizer=optimizer)
    times = ([], [], [])
    while run.step < 2 * count and not run.should_stop():
        began = time.perf_counter()
        one_step(net, optimizer, x, y)
        times[0].append(time.perf_counter() - began)
        for each, step in ((1, lambda: one_step(model, optimizer, x, y)), (2, lambda: alone().backward())):
            began = time.perf_counter()
            with run.step():
                step()
            times[each].append(time.perf_counter() - began)
    if run.rank == 0:
        say(out, **dict(zip(("bare", "summed", "alone"), (statistics.median(each[len(each) // 5:]) for each in times))))


def torch_sums(out, layers, count, batch, millions, rank, where, interface):
    """The same of one of two processes by PyTorch's DistributedDataParallel over gloo."""
    del layers
    os.environ["GLOO_SOCKET_IFNAME"] = interface
    import torch
    import torch.distributed
    from torch.nn.parallel import DistributedDataParallel

    torch.distributed.init_process_group("gloo", init_method=where, rank=int(rank), world_size=2)
    net, x, y, optimizer = perceptron(int(batch), int(millions))
    model = DistributedDataParallel(net, gradient_as_bucket_view=True)
    flat = torch.zeros(sum(p.numel() for p in net.parameters()))
    times = ([], [], [])
    for _ in range(count):
        for each, step in ((0, lambda: one_step(net, optimizer, x, y)), (1, lambda: one_step(model, optimizer, x, y)),
                           (2, lambda: torch.distributed.all_reduce(flat))):
            torch.distributed.barrier()
            began = time.perf_counter()
            step()
            times[each].append(time.perf_counter() - began)
    if rank == "0":
        say(out, **dict(zip(("bare", "summed", "alone"), (statistics.median(each[len(each) // 5:]) for each in times))))
    torch.distributed.barrier()
    os._exit(0)  # gloo may hang at the end of a process whose peers are gone


def elastic_runs(out, layers, count, millions):
    """Steps of an elastic trial for the sample ledger's log, until it is ended."""
    del out, layers
    import shoal
    import torch

    run = shoal.init(elastic=True)
    net, x, y, optimizer = perceptron(4 * 8, int(millions))
    model = shoal.torch.DistributedDataParallel(net)
    run.carry(model=net, optimizer=optimizer)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=len(x))
    for _ in run.epochs(count):
        for x, y in run.batches(loader):
            with run.step():
                one_step(model, optimizer, x, y)


def torch_runs(out, layers, count, millions):
    """A rank of torch.distributed.run: a line a step, microseconds of the monotonic clock, process id, count of processes, step;
    a checkpoint every 100 steps, from which it goes on after a restart."""
    import datetime

    import torch
    import torch.distributed
    from torch.nn.parallel import DistributedDataParallel

    del layers
    torch.distributed.init_process_group("gloo", timeout=datetime.timedelta(seconds=5))
    rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    net, x, y, optimizer = perceptron(8, int(millions))
    kept, begin = f"{out}.checkpoint", 0
    if os.path.exists(kept):
        saved = torch.load(kept)
        net.load_state_dict(saved["net"])
        optimizer.load_state_dict(saved["optimizer"])
        begin = saved["step"]
    model = DistributedDataParallel(net, gradient_as_bucket_view=True)
    log = os.open(f"{out}.{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for step in range(begin + 1, count):
        one_step(model, optimizer, x, y)
        os.write(log, f"{time.monotonic_ns() // 1000} {os.getpid()} {size} {step}\n".encode())
        if step % 100 == 0 and rank == 0:
            torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, f"{kept}.new")
            os.rename(f"{kept}.new", kept)


if __name__ == "__main__":
    mode, results, of_layers, of_count, *more = sys.argv[1:]
    {"saves": saves, "torch": torch_saves, "async": async_saves, "waits": waits, "changes": changes, "elastic_steps": elastic_steps, "torch_steps": torch_steps,
     "elastic_runs": elastic_runs, "elastic_sums": elastic_sums, "torch_sums": torch_sums, "torch_runs": torch_runs, "reports": reports, "json": json_lines,
     "tensorboard": tensorboard, "mlflow": mlflow}[mode](results, int(of_layers), int(of_count), *more)
