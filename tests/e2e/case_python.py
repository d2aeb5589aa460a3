"""A script with `import shoal`: what is durable survives whatever is killed, and no report below it is lost."""

import os
import signal
import subprocess
from pathlib import Path

from case_ddp import is_python
from case_disk import full_disk
from lab import Skip, case, expect, read_steps, show, step_log, wait_over, wait_until
from look import workers_of
from mesh import ROOT

PYTHON = "/usr/bin/python3"
PROGRAMS = Path(__file__).resolve().parent / "programs"
STEPS = 400


def refuse_sanitizers(lab):
    cache = Path(lab.build) / "CMakeCache.txt"
    if cache.exists() and "-fsanitize" in cache.read_text():
        raise Skip("the system's Python cannot open a library that was built for a sanitizer")


class Life:
    """One rank in one attempt, by its file (programs/shoal_train.py)."""

    def __init__(self, path):
        lines = [line.split() for line in path.read_text().split("\n")[:-1]]  # the last one may be cut
        self.begun = bool(lines)
        if lines:
            self.attempt, self.rank, self.loaded = map(int, lines[0][1:])
        self.steps = [(int(line[1]), int(line[2])) for line in lines if line[0] == "step"]
        self.left = [(int(line[1]), line[2]) for line in lines if line[0] == "leave"]


class Training:
    """An experiment of two ranks on two nodes."""

    def __init__(self, lab, slots, steps=STEPS):
        refuse_sanitizers(lab)
        self.mesh = lab.mesh(["alder", "birch", "cedar", "dogwood"][: len(slots)], start=False)
        for node, each in zip(self.mesh.nodes, slots):
            node.slots = each
        self.mesh.start()
        self.log = lab.dir / "log"
        self.steps = steps
        self.identity = lab.submit(self.mesh.nodes[0], {
            "name": "python", "entrypoint": f"exec {PYTHON} shoal_train.py {self.log} {steps}",
            "resources": {"slots_per_trial": 2}, "searcher": {"name": "single", "metric": "loss"},
        }, {"shoal_train.py": (PROGRAMS / "shoal_train.py").read_text()})

    def lives(self, rank=0):
        """In the order of attempts."""
        lives = [Life(path) for path in self.log.parent.glob(f"{self.log.name}.*")]
        return sorted((life for life in lives if life.begun and life.rank == rank), key=lambda life: life.attempt)

    def trial(self):
        return show(self.mesh, self.identity)["trials"][0]

    def hosts(self):
        return {slot["node_name"] for slot in self.trial()["slots"]}

    def wait_durable(self):
        """Until a checkpoint is durable; the time for a death."""
        wait_until(lambda: any(durable for life in self.lives() for _, durable in life.steps), 40, "a durable checkpoint")

    def judge(self, attempts):
        """Completed in so many attempts: each goes on behind what was durable before, and every step was reported."""
        final = wait_over(self.mesh, self.identity, 60)["trials"][0]
        firsts, seconds = self.lives(0), self.lives(1)
        expect(final["attempt"] == attempts and len(firsts) == attempts, f"attempts: {final['attempt']}, {len(firsts)} lives")
        for before, after in zip(firsts, firsts[1:]):
            durable, made = before.steps[-1][1], before.steps[-1][0]
            expect(0 < durable <= after.loaded <= made, f"durable was {durable} of {made}, and {after.loaded} was loaded")
            expect(after.steps[0][0] == after.loaded + 1, f"{after.loaded} was loaded, and {after.steps[0][0]} is the next step")
        for first, second in zip(firsts, seconds):
            expect(first.loaded == second.loaded, f"rank 0 has loaded {first.loaded}, rank 1 {second.loaded}")
        expect(firsts[-1].steps[-1][0] == self.steps, f"the last step is {firsts[-1].steps[-1][0]}")
        points = self.mesh.living()[0].json_lines("metrics", self.identity)
        valid = sorted(point["step"] for point in points if not point.get("void"))
        missing = sorted(set(range(1, self.steps + 1)) - set(valid))
        expect(not missing, f"steps without a report: {missing[:10]} of {len(missing)}; loaded: {[life.loaded for life in firsts]}")
        expect(len(valid) == self.steps, f"{len(valid)} valid points of {self.steps} steps")
        expect(all(abs(point["metrics"]["loss"] * point["step"] - 1) < 1e-9 for point in points), "a report has another number")


@case(limit_s=100)
def a_python_rank_that_is_killed_goes_on_behind_the_durable_step(lab):
    training = Training(lab, ["cpu:1", "cpu:1"])
    training.wait_durable()
    rank = lab.random.choice("01")
    [victim] = [pid for pid, environment in workers_of(training.identity) if environment["RANK"] == rank and is_python(pid)]
    os.kill(victim, signal.SIGKILL)
    lab.note(f"killed rank {rank}")
    training.judge(attempts=2)


@case(limit_s=100)
def a_node_of_a_python_trial_dies_and_another_takes_its_rank(lab):
    """The daemon, the keeper and the worker at once; the rank's reports are on another node by then."""
    training = Training(lab, ["none", "cpu:1", "cpu:1", "cpu:1"])
    training.wait_durable()
    coordinator = show(training.mesh, training.identity)["coordinator_name"]
    victim = training.mesh.by_name(lab.random.choice(sorted(training.hosts() - {coordinator, "alder"})))
    victim.kill_machine()
    lab.note(f"killed {victim.name}, coordinator {coordinator}")
    training.judge(attempts=2)


@case(limit_s=100)
def the_coordinator_of_a_python_trial_dies(lab):
    """The attempt goes on unless the coordinator had one of its ranks."""
    training = Training(lab, ["cpu:1", "cpu:1", "cpu:1"])
    training.wait_durable()
    coordinator = show(training.mesh, training.identity)["coordinator_name"]
    hosts = training.hosts()
    training.mesh.by_name(coordinator).kill_machine()
    lab.note(f"killed {coordinator}, ranks on {hosts}")
    training.judge(attempts=2 if coordinator in hosts else 1)


@case(limit_s=100)
def the_submitter_of_a_python_trial_dies(lab):
    training = Training(lab, ["none", "cpu:1", "cpu:1"])
    training.wait_durable()
    training.mesh.nodes[0].kill_machine()
    training.judge(attempts=1)


@case(limit_s=100)
def a_python_trial_trains_on_while_its_daemon_is_away(lab):
    """It is stopped and started again under rank 0, none of whose reports is lost."""
    training = Training(lab, ["none", "cpu:1", "cpu:1"])
    training.wait_durable()
    [pid] = [pid for pid, environment in workers_of(training.identity) if environment["RANK"] == "0" and is_python(pid)]
    home = next(node for node in training.mesh.nodes if str(node.dir) in Path(f"/proc/{pid}/cwd").resolve().as_posix())
    home.kill_daemon(signal.SIGTERM)
    away = training.lives()[0].steps[-1][0]
    wait_until(lambda: training.lives()[0].steps[-1][0] >= away + 60, 40, "60 steps without a daemon")
    home.start()
    training.judge(attempts=1)


@case(limit_s=100)
def a_paused_python_trial_leaves_at_one_step_and_resumes_behind_it(lab):
    training = Training(lab, ["cpu:1", "cpu:1"])
    training.wait_durable()
    node = training.mesh.nodes[0]
    node.run("pause", training.identity)
    wait_until(lambda: show(training.mesh, training.identity)["state"] == "paused", 40, "the experiment to be paused")
    [[(stop, reason)], left] = [training.lives(rank)[0].left for rank in (0, 1)]
    expect(left == [(stop, reason)] and reason == "pause", f"rank 0 has left at {stop} for {reason}, rank 1 {left}")
    node.run("resume", training.identity)
    wait_until(lambda: len(training.lives()) == 2, 40, "a second attempt")
    expect(training.lives()[1].loaded == stop, f"left at {stop}, and loaded {training.lives()[1].loaded}")
    training.judge(attempts=2)


@case(limit_s=60)
def children_of_a_python_trial_are_refused_and_its_threads_report(lab):
    refuse_sanitizers(lab)
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    identity = lab.submit(node, {"entrypoint": f"exec {PYTHON} shoal_beside.py 5000", "max_restarts": 0},
                          {"shoal_beside.py": (PROGRAMS / "shoal_beside.py").read_text()})
    wait_over(mesh, identity, 50)
    said = dict(line.split(" ", 1) for line in node.run("logs", f"{identity}/0", "--rank", "0").splitlines())
    for way in ("fork", "spawn"):
        answers = said[way].split("|")
        expect(answers[0] == "0" and len(answers) == 4 and all("was called in a child process" in text for text in answers[1:]),
               f"a child made by {way} was told: {answers}")
    points = node.json_lines("metrics", identity)
    steps = {group: [point["step"] for point in points if point["group"] == group] for group in ("thread", "child", "end")}
    expect(sorted(steps["thread"]) == list(range(5000)), f"{len(steps['thread'])} of the thread's 5000 reports are there")
    expect(steps["end"] == [0] and not steps["child"], f"{steps['end']}, and {steps['child']} of children")


@case(limit_s=60)
def a_number_alone_is_reported_as_the_metric_of_the_experiment(lab):
    """As an objective of Optuna does it; the program asks its daemon for the name."""
    refuse_sanitizers(lab)
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    script = "import shoal\ntrial = shoal.init()\nfor step in (1, 2):\n    trial.report(step / 4, step)\nassert not trial.should_prune()\n"
    identity = lab.submit(node, {"entrypoint": f"exec {PYTHON} objective.py", "max_restarts": 0,
                                 "searcher": {"name": "single", "metric": "f1", "smaller_is_better": False}}, {"objective.py": script})
    best = wait_over(mesh, identity, 50)["best"]
    points = [(point["group"], point["step"], point["metrics"]) for point in node.json_lines("metrics", identity)]
    expect(points == [("validation", 1, {"f1": 0.25}), ("validation", 2, {"f1": 0.5})] and best["value"] == 0.5, f"{points}, {best}")


@case(limit_s=60)
def a_python_rank_that_alone_asks_whether_to_stop_is_told_so(lab):
    """First while no group is formed, which waits for the ranks' first call; then in the group."""
    refuse_sanitizers(lab)
    mesh = lab.mesh(1, slots="cpu:2")
    script = """import os, sys, time, shoal
run, path = shoal.init(), sys.argv[1]
if os.path.exists(path):
    run.barrier()
if run.rank == 0:
    try:
        run.should_stop()
    except shoal.GroupBroken as error:
        print("SAID", error, flush=True)
    run.report({"x": 1}, step=run.attempt)
    open(f"{path}.{run.attempt}", "w").close()
    open(path, "w").close()
else:
    while not os.path.exists(f"{path}.{run.attempt}"):
        time.sleep(0.05)
sys.exit(3 if run.attempt == 1 else 0)
"""
    node = mesh.nodes[0]
    identity = lab.submit(node, {
        "entrypoint": f"exec {PYTHON} alone.py {lab.dir}/asked", "max_restarts": 1, "collective_timeout": 2,
        "resources": {"slots_per_trial": 2}, "searcher": {"name": "single", "metric": "x"},
    }, {"alone.py": script})
    wait_over(mesh, identity, 50)
    logs = [node.run("logs", f"{identity}/0", "--attempt", str(attempt)) for attempt in (1, 2)]
    said = [line for log in logs for line in log.splitlines() if "SAID" in line]
    expect(len(said) == 2 and "within 2 s not all 2 ranks" in said[0], f"rank 0 was told: {said}")
    expect(all("Every rank has to call run.should_stop() as often as the others" in line for line in said), f"rank 0 was told: {said}")
    points = sorted(point["step"] for point in node.json_lines("metrics", identity, "--all"))
    expect(points == [1, 2], f"reports of attempts {points}")


@case(limit_s=90)
def a_full_disk_refuses_a_python_save_and_the_next_one_works(lab):
    """The program is told by the save after the refused one, catches it and trains on."""
    refuse_sanitizers(lab)
    mesh = lab.mesh(["alder", "birch"], start=False)
    alder, birch = mesh.nodes
    alder.slots, birch.slots = "none", "cpu:1"
    fill = full_disk(lab, birch, 140 << 20)
    mesh.start()
    script = """import os, sys, time, shoal
run, step, refused = shoal.init(), 0, 0
while not os.path.exists(sys.argv[1] + "/end"):
    step += 1
    run.report({"x": step}, step=step)
    try:
        run.save({"step": step, "weights": os.urandom(1 << 20)}, step=step)
    except shoal.CheckpointError as error:
        refused = step
        with open(sys.argv[1] + "/refused", "a") as file:
            file.write(f"{error}\\n")
    if refused and run.durable_step > refused:
        open(sys.argv[1] + "/again", "w").close()
    time.sleep(0.2)
"""
    identity = lab.submit(alder, {"entrypoint": f"exec {PYTHON} full.py {lab.dir}", "max_restarts": 0,
                                  "searcher": {"name": "single", "metric": "x"}}, {"full.py": script})
    wait_until(lambda: (show(mesh, identity)["trials"][0].get("checkpoint") or {}).get("durable"), 30, "two copies")
    fill(0)
    wait_until((lab.dir / "refused").exists, 30, "a refused save")
    fill(100 << 20)
    wait_until((lab.dir / "again").exists, 30, "a durable checkpoint after the refused one")
    (lab.dir / "end").touch()
    wait_over(mesh, identity, 30)
    said = (lab.dir / "refused").read_text().splitlines()
    expect(all("Saving failed: " in line and "disk is full" in line for line in said), f"the program was told: {said}")
    steps = sorted(point["step"] for point in alder.json_lines("metrics", identity))
    expect(steps == list(range(1, len(steps) + 1)), f"steps with reports: {steps}")


@case(limit_s=60)
def a_python_trial_needs_no_dev_shm(lab):
    """Two ranks of one host meet, save and load where /dev/shm has no room."""
    refuse_sanitizers(lab)
    hide = "mount -t tmpfs -o size=4k,nr_inodes=1 none /dev/shm"
    if subprocess.run(["unshare", "-m", "sh", "-c", hide], capture_output=True).returncode != 0:
        raise Skip("/dev/shm cannot be hidden here; that takes root")
    mesh = lab.mesh(1, slots="cpu:2")
    script = """import shoal, sys
run = shoal.init()
state = run.load()
print("LOADED", state and len(state["weights"]), flush=True)
run.save({"weights": bytes(1 << 22)}, step=1)
run.barrier()
sys.exit(3 if run.attempt == 1 else 0)
"""
    identity = lab.submit(mesh.nodes[0], {
        "entrypoint": f"exec unshare -m sh -c '{hide}; touch /dev/shm/x; exec {PYTHON} save.py'", "max_restarts": 1,
        "resources": {"slots_per_trial": 2}}, {"save.py": script})
    wait_over(mesh, identity, 50)
    said = mesh.nodes[0].run("logs", f"{identity}/0", "--attempt", "2").splitlines()
    expect(len([line for line in said if f"LOADED {1 << 22}" in line]) == 2, f"the second attempt said: {said}")


@case(limit_s=100)
def a_pytorch_model_goes_on_as_if_it_had_never_been_killed(lab):
    """Model, optimiser and generator; the second attempt trains once more from the beginning and compares."""
    if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True).returncode != 0:
        raise Skip("PyTorch is not installed: tools/setup --torch installs it")
    refuse_sanitizers(lab)
    mesh = lab.mesh(1, slots="cpu:1")
    script = """import os, signal, shoal, torch

def fresh():
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(), torch.nn.Linear(8, 8))
    model[2].weight = model[0].weight  # tied
    return model, torch.optim.AdamW(model.parameters(), lr=0.1)

def train(model, optimizer, steps):
    for _ in steps:
        optimizer.zero_grad()
        model(torch.randn(4, 8)).square().sum().backward()
        optimizer.step()
    return torch.cat([p.detach().flatten() for p in model.parameters()])

run = shoal.init()
model, optimizer = fresh()
state = run.load()
if state is None:
    train(model, optimizer, range(5))
    run.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "rng": torch.get_rng_state()}, step=5)
    run.flush()
    os.kill(os.getpid(), signal.SIGKILL)
model.load_state_dict(state["model"])
optimizer.load_state_dict(state["optimizer"])
torch.set_rng_state(state["rng"])
resumed = train(model, optimizer, range(run.step, 20))
print("SAME" if torch.equal(resumed, train(*fresh(), range(20))) else "DIFFERENT", run.step, flush=True)
"""
    identity = lab.submit(mesh.nodes[0], {"entrypoint": f"exec {PYTHON} same.py", "max_restarts": 1}, {"same.py": script})
    wait_over(mesh, identity, 80)
    said = mesh.nodes[0].run("logs", f"{identity}/0")
    expect("SAME 5" in said, f"the second attempt said: {said}")


@case(limit_s=60)
def two_processes_of_a_slot_do_not_cut_each_other_off(lab):
    """A launcher of its own has started both. The second one is refused; after the end of the first a third is let in."""
    refuse_sanitizers(lab)
    mesh = lab.mesh(1, slots="cpu:1")
    script = """import os, sys, time, shoal
name, ready = sys.argv[1:]
if name == "second":
    while not os.path.exists(ready + ".first"):
        time.sleep(0.02)
try:
    run = shoal.init()
except shoal.ShoalError as error:
    print("REFUSED", name, error, flush=True)
    open(f"{ready}.{name}", "w").close()
    sys.exit()
open(f"{ready}.{name}", "w").close()
while name == "first" and not os.path.exists(ready + ".second"):
    time.sleep(0.02)
for step in range(100):
    run.report({"x": step}, step=step, group=name)
"""
    identity = lab.submit(mesh.nodes[0], {
        "entrypoint": f"{PYTHON} two.py first {lab.dir}/ready & {PYTHON} two.py second {lab.dir}/ready; wait; "
                      f"exec {PYTHON} two.py third {lab.dir}/ready", "max_restarts": 0}, {"two.py": script})
    wait_over(mesh, identity, 50)
    said = [line for line in mesh.nodes[0].run("logs", f"{identity}/0", "--rank", "0").splitlines() if "REFUSED" in line]
    expect(len(said) == 1 and "REFUSED second The daemon of this machine refuses this process: Process" in said[0], f"refused: {said}")
    points = mesh.nodes[0].json_lines("metrics", identity)
    counts = {name: len([point for point in points if point["group"] == name]) for name in ("first", "second", "third")}
    expect(counts == {"first": 100, "second": 0, "third": 100}, f"points: {counts}")


@case(limit_s=60)
def python_ranks_that_differ_are_told_alike_and_may_go_on(lab):
    """They save other keys, then make different calls; their group stays whole."""
    refuse_sanitizers(lab)
    mesh = lab.mesh(2, slots="cpu:1")
    script = """import shoal
run = shoal.init()
run.save({"a": 1} if run.rank == 0 else {"b": 1}, step=1)
for call in (run.barrier, run.should_stop if run.rank == 0 else run.barrier):
    try:
        call()
    except (shoal.CheckpointError, shoal.GroupBroken) as error:
        print("SAID", error, flush=True)
print("GATHERED", run.all_gather(run.rank), flush=True)
"""
    identity = lab.submit(mesh.nodes[0], {"entrypoint": f"exec {PYTHON} differ.py", "max_restarts": 0,
                                          "resources": {"slots_per_trial": 2}}, {"differ.py": script})
    wait_over(mesh, identity, 50)
    for rank in ("0", "1"):
        said = mesh.nodes[0].run("logs", f"{identity}/0", "--rank", rank).splitlines()
        expect(len(said) == 3 and "only rank 1 has state['b']; only rank 0 has state['a']" in said[0]
               and "rank 0 run.should_stop(), rank 1 run.barrier()" in said[1] and said[2] == "GATHERED [0, 1]", f"rank {rank}: {said}")


@case(limit_s=240)
def an_elastic_pytorch_group_outlives_its_ranks(lab):
    """Three nodes, three ranks, one of them killed: the others go on in the same processes, another takes its place, and every
    sample of every epoch is used once."""
    refuse_sanitizers(lab)
    if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True).returncode != 0:
        raise Skip("PyTorch is not installed: tools/setup --torch installs it")
    mesh = lab.mesh(["alder", "birch", "cedar"], slots="cpu:1")
    log = lab.dir / "steps"
    identity = lab.submit(mesh.nodes[0], {
        "name": "elastic", "entrypoint": f"{step_log(log)} exec {PYTHON} train.py --epochs 3 --width 64",
        "resources": {"slots_per_trial": 3, "min_slots": 2, "max_slots": 3}, "searcher": {"name": "single", "metric": "accuracy"},
    }, {"train.py": (ROOT / "examples" / "pytorch-elastic" / "train.py").read_text()})

    def groups():
        """Steps by generation and size."""
        steps = [step for rank in range(4) for step in read_steps(log, identity, rank)]
        return {(step.generation, step.size): sum(1 for each in steps if each.generation == step.generation) for step in steps}

    def whole(after=0):
        return max((generation for (generation, size), count in groups().items() if size == 3 and count >= 60 and generation > after),
                   default=None)

    first = wait_until(whole, 120, "three ranks to train")
    before = {pid for pid, environment in workers_of(identity) if is_python(pid)}
    victim = lab.random.choice(sorted(before))
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: any(generation > first for generation, _ in groups()), 60, "the others to go on")
    living = {pid for pid, environment in workers_of(identity) if is_python(pid)}
    expect(before - {victim} <= living, f"of {before} without {victim} only {living} live")
    final = wait_over(mesh, identity, 180)["trials"][0]
    expect(final["attempt"] == 1, f"attempt {final['attempt']} completed, not the first")
    lab.note(f"steps by generation and size: {groups()}, accuracy {final['metrics']['validation']['accuracy']}")
    done = subprocess.run([mesh.nodes[0].bin / "shoal-train", "ledger", "--samples", "60000", *log.parent.glob(f"{log.name}.*")],
                          capture_output=True, text=True, timeout=60)
    expect(done.returncode == 0, done.stderr)
    lab.note(done.stdout.strip())
