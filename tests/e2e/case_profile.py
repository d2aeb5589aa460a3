"""Profiles of trials: what their ranks use, where the time of their steps goes, and traces of a few steps of all ranks."""

import json
from pathlib import Path

from case_elastic_torch import debians
from case_python import PYTHON, refuse_sanitizers
from door import DOOR, Door
from lab import Refused, Skip, case, expect, show, wait_over, wait_until

BUSY_AND_IDLE = """import os, socket, time
import shoal
run = shoal.init()
room = bytearray(os.urandom(1 << 20) * (200 if run.rank == 0 else 1))
listener = socket.create_server(("127.0.0.1", 0))
out = socket.create_connection(listener.getsockname())
into, _ = listener.accept()
began, step = time.monotonic(), 0
while time.monotonic() - began < 7:
    step += 1
    until = time.monotonic() + 0.05
    while run.rank == 0 and time.monotonic() < until:
        pass
    if run.rank == 1:
        time.sleep(0.05)
    else:
        out.sendall(bytes(20000))
        into.recv(20000, socket.MSG_WAITALL)
    run.report({"loss": step}, step=step)
"""


def profile(node, identity, *more):
    """The points of a trial's profile, by group and name."""
    found = {}
    for point in node.json_lines("metrics", f"{identity}/0", "--profile", *more):
        for name, value in point["metrics"].items():
            found.setdefault(f"{point['group']}/{name}", []).append(value)
    return found


@case(limit_s=90, pairs=True)
def a_profile_tells_a_busy_rank_from_an_idle_one(lab):
    refuse_sanitizers(lab)
    mesh = lab.mesh(["alder", "birch"], slots="cpu:1")
    identity = lab.submit(mesh.nodes[0], {"name": "profile", "entrypoint": f"exec {PYTHON} busy.py", "resources": {
        "slots_per_trial": 2}, "searcher": {"name": "single", "metric": "loss"}}, {"busy.py": BUSY_AND_IDLE})
    wait_over(mesh, identity, 60)
    for node in mesh.nodes:
        seen = profile(node, identity)
        busy, idle = seen["system/rank0/cpu_percent"], seen["system/rank1/cpu_percent"]
        expect(max(busy) > 3 * max(idle) and 1 < max(busy) < 150, f"percent of a processor: {busy}, {idle}")
        memory = max(seen["system/rank0/memory_bytes"]), max(seen["system/rank1/memory_bytes"])
        expect(memory[0] > memory[1] + (100 << 20) and memory[1] > 1 << 20, f"resident bytes: {memory}")
        for name in ("disk_read_bytes_s", "disk_written_bytes_s", "network_sent_bytes_s", "network_received_bytes_s"):
            expect(all(value >= 0 for value in seen[f"system/rank0/{name}"]), f"{name}: {seen}")
        for name in ("network_sent_bytes_s", "network_received_bytes_s"):
            most = max(seen[f"system/rank0/{name}"]), max(seen[f"system/rank1/{name}"])
            expect(20_000 < most[0] < 500_000 and most[1] < 10_000, f"{name}, of 20,000 bytes in at least 0.05 s: {most}")
        steps = seen["time/rank0/step_s"]
        expect(steps and all(0.04 < value < 5 for value in steps), f"seconds of a step of at least 0.05 s: {steps}")
    plain = mesh.nodes[0].json_lines("metrics", f"{identity}/0")
    expect({point["group"] for point in plain} == {"training"}, "the profile is among the reported metrics")
    row = mesh.nodes[0].run("show", identity, "--json")
    expect("cpu_percent" not in row, "the profile is in show")
    sums = mesh.nodes[1].json_lines("metrics", f"{identity}/0", "--profile", "--points", "2")
    cpu = [each for each in sums if "rank0/cpu_percent" in each["metrics"]]
    expect(cpu and all(each["metrics"]["rank0/cpu_percent"]["max"] > 0 for each in cpu), f"sums of the profile: {sums}")
    boards = [mesh.nodes[0].run("tensorboard", identity, "--json", "--logdir", str(lab.dir / word), *more)
              for word, more in (("board", []), ("board-profile", ["--profile"]))]
    counts = [json.loads(board)["points"] for board in boards]
    expect(counts[1] > counts[0], f"points for TensorBoard without and with the profile: {counts}")


@case(limit_s=60)
def a_profile_has_the_use_of_the_ranks_gpu(lab):
    library = Path(lab.build) / "libfake_nvml.so"
    if not library.exists():
        raise Skip("libfake_nvml.so is not built")
    mesh = lab.mesh(1, slots="auto", wrap=["env", "FAKE_NVML=whole"], options=["--nvml", str(library)])
    node = mesh.nodes[0]
    identity = lab.submit(node, {"name": "gpu", "entrypoint": "exec sleep 100", "resources": {"slot_kind": "cuda"},
                                 "searcher": {"name": "single", "metric": "loss"}})
    seen = wait_until(lambda: p if "system/rank0/gpu_watts" in (p := profile(node, identity)) else None, 40, "the GPU's use")
    values = [seen[f"system/rank0/gpu_{name}"][-1] for name in ("percent", "memory_bytes", "watts", "celsius")]
    expect(values in ([37, 51527024640 // 4, 212.5, 61], [91, 42949672960 // 4, 212.5, 48]), f"{values}")
    node.run("cancel", identity)


ELASTIC = """import time
import torch, shoal
import torch.utils.data as data
torch.manual_seed(0)
torch.set_num_threads(1)
run = shoal.init(elastic=True)
net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
model = shoal.torch.DistributedDataParallel(net)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
run.carry(model=net, optimizer=opt)

class Slow(data.Dataset):
    def __len__(self):
        return 100000
    def __getitem__(self, i):
        time.sleep(0.002)
        return torch.full((64,), float(i % 7)), torch.tensor([1.0])

for epoch in run.epochs(50):
    for x, y in run.batches(data.DataLoader(Slow(), batch_size=8)):
        with run.step() as block:
            opt.zero_grad()
            loss = ((model(x) - y) ** 2).mean()
            loss.backward()
            opt.step()
        if block.applied and run.step % 20 == 0 and run.rank == 0:
            run.report({"loss": loss.item()}, step=int(run.step))
            run.save()
"""


def spans_of(events, rank, lane=0):
    """The spans of a rank's lane as (begin, end, name, args), in µs."""
    return sorted((e["ts"], e["ts"] + e["dur"], e["name"], e["args"]) for e in events
                  if e["ph"] == "X" and e["pid"] == rank and e["tid"] == lane)


def check_nesting(spans):
    """Two spans of a lane lie in each other, or apart: viewers draw nothing else. A µs is rounding."""
    open_ends = []
    for begin, end, name, _ in sorted(spans, key=lambda span: (span[0], -span[1])):
        while open_ends and open_ends[-1] <= begin + 0.001:
            open_ends.pop()
        expect(not open_ends or end <= open_ends[-1] + 0.001, f"{name} from {begin} to {end} reaches out of another span")
        open_ends.append(end)


@case(limit_s=150, pairs=True)
def a_trace_shows_the_ranks_of_two_nodes_on_one_clock(lab):
    refuse_sanitizers(lab)
    python = debians()
    mesh = lab.mesh(["alder", "birch"], slots="cpu:1", options=DOOR)
    alder, birch = mesh.nodes
    config = {"name": "traced", "entrypoint": f"exec {python} train.py", "searcher": {"name": "single", "metric": "loss"},
              "resources": {"slots_per_trial": 2, "min_slots": 2, "max_slots": 2}}
    identity = lab.submit(alder, config, {"train.py": ELASTIC})
    wait_until(lambda: (show(mesh, identity)["trials"][0]["step"] or 0) > 3, 60, "steps")
    path = lab.dir / "trace.json"
    told = json.loads(birch.run("trace", f"{identity}/0", "--steps", "3", "--out", str(path), "--json"))
    expect(told["ranks"] == 2 and told["steps"] == 3 and told["missing"] == 0 and not told["apart"], f"{told}")
    events = json.loads(path.read_text())
    error_us = max(e["args"]["clock_error_us"] for e in events if e["name"] == "process_labels")
    expect(error_us == told["clock_error_us"] and error_us < 500_000, f"clocks within {error_us} us")
    commits = []
    for rank in (0, 1):
        spans = spans_of(events, rank)
        check_nesting(spans)
        names = [name for _, _, name, _ in spans]
        expect([names.count(name) for name in ("step", "data wait", "forward", "backward", "commit")] == [3] * 5, f"{names}")
        sums = [span for lane in (0, 1) for span in spans_of(events, rank, lane) if span[2] == "all-reduce"]
        expect(len(sums) >= 3 and all(args["bytes"] > 4 * 64 * 256 for *_, args in sums), f"{sums}")
        commits.append({args["step"]: (begin, end) for begin, end, name, args in spans if name == "commit"})
    for step, (begin, end) in commits[0].items():
        other = commits[1][step]
        overlap = min(end, other[1]) - max(begin, other[0])
        expect(overlap >= -2 * error_us, f"no rank leaves the commit of step {step} before all are in it: {commits}")
    seen = profile(alder, identity)
    parts = [seen[f"time/rank1/{name}"][-1] for name in ("step_s", "compute_s", "collective_s", "data_s")]
    expect(abs(parts[0] - sum(parts[1:])) < 1e-6 and parts[3] > 0.004, f"a step, and what of it goes where: {parts}")
    for steps, code in (("0", 2), ("65", 2)):
        refusal = refused(birch, "trace", f"{identity}/0", "--steps", steps)
        expect(refusal.code == code, f"{refusal}")
    answer = Door(birch).get(f"/api/v1/experiments/{identity}/trials/0/trace?steps=2")
    expect(answer.status == 200 and answer.fields["Content-Disposition"] == "attachment", f"by HTTP: {answer}")
    expect(sum(e["name"] == "step" for e in answer.json()) == 4, "two steps of two ranks by HTTP")
    alder.run("cancel", identity)
    wait_over(mesh, identity, 60, "cancelled")
    words = ["trace", f"{identity}/0", "--timeout", "3"]
    wait_until(lambda: "nothing to trace" in refused(alder, *words).text, 60, "the ranks to be gone")


def refused(node, *words):
    try:
        node.run(*words)
    except Refused as refusal:
        return refusal
    raise AssertionError(f"{words} was not refused")


@case(limit_s=60)
def a_program_without_a_connection_is_told_why_it_cannot_be_traced(lab):
    mesh = lab.mesh(["alder"], slots="cpu:1")
    node = mesh.nodes[0]
    config = {"name": "plain", "entrypoint": "exec sleep 100", "searcher": {"name": "single", "metric": "loss"}}
    identity = lab.submit(node, config)
    wait_until(lambda: show(mesh, identity)["trials"][0]["state"] == "running", 30, "the trial runs")
    refusal = refused(node, "trace", identity)
    expect(refusal.code == 1 and "not connected" in refusal.text and "torch.profiler" in refusal.text, f"{refusal}")
    node.run("cancel", identity)
