"""Deaths under a running experiment: of machines, daemons and workers. What must hold each time: it completes, with the trials
of the undisturbed run, and no more steps are run again than one checkpoint interval and what was run until the death was noticed."""

import bisect
import functools
import os
import shutil
import signal
import statistics
import time

from lab import case, expect, over, read_steps, show, step_log, trial_states, wait_over, wait_until
from look import program_of, workers_of

EPOCHS = 9
STEPS = EPOCHS * 55    # of one trial: 55,000 images in batches of 1,000
CHECKPOINT_EVERY = 25  # steps, some 0.2 s
REPLICATE_MS = 600     # how long a checkpoint is on its way to its second disk: until then it does not count
TRIALS = 3


def config(log, slots=2, **hyperparameters):
    """A random search of small trials that write every step into `log`."""
    return {
        "name": "survival",
        "entrypoint": f"{step_log(log)} SHOAL_FINAL_HASH={hash_file(log)} exec shoal-train mlp",
        "hyperparameters": {
            "hidden": 32,
            "learning_rate": {"type": "log", "base": 10, "minval": -2.5, "maxval": -1},
            "batch_size": 1000,
            "epochs": EPOCHS,
            "checkpoint_every": CHECKPOINT_EVERY,
            **hyperparameters,
        },
        "searcher": {"name": "random", "metric": "accuracy", "smaller_is_better": False, "max_trials": TRIALS},
        "resources": {"slots_per_trial": slots, "min_slots": min(slots, 2)},
        "seed": 7,
    }


def hash_file(log):
    return log.with_name("hashes")


def single(log, **hyperparameters):
    """One trial, with as many epochs as a case needs for what it does to it."""
    searcher = {"name": "single", "metric": "accuracy", "smaller_is_better": False}
    return config(log, learning_rate=0.03, **hyperparameters) | {"searcher": searcher}


def hyperparameters_of(experiment):
    return {trial["index"]: trial["hyperparameters"] for trial in experiment["trials"]}


@functools.cache
def references():
    """(number of nodes, slots of a trial) -> what a run to which nothing happens is like; each is measured once."""
    return {}


def undisturbed(lab, mesh, slots):
    """Of a run on this mesh to which nothing happens: the seconds from submit to the end, those at which each of its steps
    was done, and the trials' hyperparameters."""
    kind = (len(mesh.nodes), slots)
    if kind not in references():
        log = lab.dir / "undisturbed"
        identity = lab.submit(mesh.nodes[0], config(log, slots) | {"name": "undisturbed"})
        began, began_ms = time.monotonic(), time.time_ns() // 1_000_000
        final = wait_over(mesh, identity, 60)
        seconds = time.monotonic() - began
        steps = read_steps(log, identity)
        expect(len(steps) == TRIALS * STEPS, f"an undisturbed run has {TRIALS * STEPS} steps, this one {len(steps)}")
        references()[kind] = (seconds, [(s.ms - began_ms) / 1000 for s in steps], hyperparameters_of(final))
    return references()[kind]


class Run:
    """One experiment on a mesh whose nodes are killed, and the judgement over it."""

    def __init__(self, lab, names, slots=2, wired=False):
        self.lab = lab
        self.wire = None
        if wired:
            self.mesh, self.wire = lab.wired(list(names))
        else:
            self.mesh = lab.mesh(list(names), start=False)
        self.mesh.start()
        self.duration, self.progress, self.expected = undisturbed(lab, self.mesh, slots)
        self.log = lab.dir / "steps"
        self.submitter = lab.random.choice(self.mesh.nodes)
        self.identity = lab.submit(self.submitter, config(self.log, slots))
        self.began = time.monotonic()
        self.silenced_ms = []  # when a node stopped being heard
        self.hit = {}          # trial -> those of these times at which it had a worker there
        self.spared = {}       # trial -> attempt, of trials that no death so far had anything to do with
        lab.note(f"seed {lab.seed}: {len(names)} nodes, submitted from {self.submitter.name}, undisturbed {self.duration:.1f} s")

    def wait_for(self, moment):
        """Until so many seconds after the submit; less if this run is faster than the undisturbed one was, so that it is as
        far as that was at this moment."""
        done = bisect.bisect_right(self.progress, moment)
        while time.monotonic() < self.began + moment:
            if done > 0 and len(read_steps(self.log, self.identity)) >= done:
                break
            time.sleep(0.02)

    def see(self):
        return show(self.mesh, self.identity)

    def coordinator(self):
        """Waits until there is one: in the first moments of an experiment there is none yet."""
        name = wait_until(lambda: self.see()["coordinator_name"], 20, "a coordinator")
        return self.mesh.by_name(name)

    def host(self):
        """A node with a worker, or any living node if no trial runs at the moment."""
        names = {slot["node_name"] for trial in wait_until(self.see, 20, "the experiment to be known")["trials"]
                 if trial["state"] == "running" for slot in trial["slots"]}
        living = [node for node in self.mesh.living() if node.name in names] or self.mesh.living()
        return self.lab.random.choice(living)

    def lose(self, node, how):
        """Notes which trials `node` has nothing to do with, then ends it by `how`."""
        before = wait_until(self.see, 20, "the experiment to be known")
        trained = {(s.trial, s.attempt) for s in read_steps(self.log, self.identity)}
        now_ms = time.time_ns() // 1_000_000
        how()
        for trial in before["trials"]:
            if any(slot["node_name"] == node.name for slot in trial["slots"]):
                self.spared.pop(trial["index"], None)
                self.hit.setdefault(trial["index"], []).append(now_ms)
            elif not self.silenced_ms and (trial["index"], trial["attempt"]) in trained:
                self.spared[trial["index"]] = trial["attempt"]
        self.silenced_ms.append(now_ms)
        self.lab.note(f"{time.monotonic() - self.began:.2f} s: lost {node.name} (coordinator: {before['coordinator_name']}); "
                      f"{trial_states(before)}")

    def kill(self, node):
        self.lose(node, node.kill_machine)

    def wait_copies(self):
        """Until a death may come again: what lost a copy by the last one is on two living nodes, or all is done."""
        living = {node.name for node in self.mesh.living()}

        def are_made():
            experiment = self.see()
            checkpoints = [trial["checkpoint"] for trial in experiment["trials"]
                           if trial["checkpoint"] and trial["state"] != "completed"]
            told = "".join(node.log.read_text(errors="replace") for node in self.mesh.living())
            coded = {name for name in living if f"the code of survival is on {name}\n" in told} | {self.submitter.name}
            return over(experiment) or (len(coded & living) > 1 and
                                        all(len(living & set(c["holders"])) > 1 for c in checkpoints))

        wait_until(are_made, 60, "new copies of what the death took one of")

    def judge(self, timeout=60, viewer=None):
        final = wait_over(self.mesh, self.identity, timeout, viewer=viewer)
        seconds = time.monotonic() - self.began
        expect(hyperparameters_of(final) == self.expected,
               f"the trials are {hyperparameters_of(final)}, undisturbed they are {self.expected}")
        again = 0
        for trial in final["trials"]:
            again += self.judge_trial(trial)
        return f"seed {self.lab.seed}: {seconds:.1f} s, undisturbed {self.duration:.1f} s; {again} steps run again"

    def judge_trial(self, trial):
        index, lost = trial["index"], len(self.silenced_ms)
        expect(trial["state"] == "completed" and trial["step"] == STEPS, f"trial {index} is {trial['state']} at {trial['step']}")
        if index in self.spared:
            expect(trial["attempt"] == self.spared[index], f"no worker of trial {index} died, but its attempt "
                   f"{self.spared[index]} was followed by {trial['attempt']}")
        steps = [s for s in read_steps(self.log, self.identity) if s.trial == index]
        lives = {}
        for step in steps:
            lives.setdefault(step.life, []).append(step)
        lives = sorted(lives.values(), key=lambda rows: rows[-1].ms)
        allowed = sum(CHECKPOINT_EVERY + self.unnoticed(index, rows) for rows in lives[:-1])
        again = len(steps) - STEPS
        self.lab.note(f"trial {index}: attempts " + ", ".join(
            f"{rows[0].attempt}: {rows[0].step}-{rows[-1].step}" for rows in lives) + f"; {again} again of {allowed}")
        for rows in lives:
            numbers = [row.step for row in rows]
            expect(numbers == sorted(set(numbers)), f"trial {index} attempt {rows[0].attempt} has a repetition in its steps")
            # A step that is not this worker's here is one that another of the same group has written, as read_steps shows it.
            others = {s.step for s in steps if s.attempt == rows[0].attempt and s.life != rows[0].life}
            gap = set(range(numbers[0], numbers[-1])) - set(numbers) - others
            expect(not gap, f"trial {index} attempt {rows[0].attempt} has a gap in its steps: nobody wrote {sorted(gap)[:5]}")
        expect({s.step for s in steps} == set(range(1, STEPS + 1)), f"trial {index} did not run each of its steps")
        expect(again <= allowed, f"trial {index} ran {again} steps again; {allowed} are allowed")
        expect(trial["attempt"] <= 1 + 2 * lost, f"trial {index} needed {trial['attempt']} attempts for {lost} deaths")
        return again

    def unnoticed(self, index, rows):
        """How many steps a lost attempt ran from its node's death on, or while its last checkpoint was still on the way."""
        times = self.hit.get(index, self.silenced_ms)  # else it was placed there after we looked
        ended = [at for at in times if at >= rows[0].ms] or times
        return sum(row.ms >= min(ended) - REPLICATE_MS for row in rows)


THREE = ("alder", "birch", "cedar")
FIVE = (*THREE, "dogwood", "elm")


@case(limit_s=120, soak=True, pairs=True)
def kill_the_coordinator_of_three(lab):
    run = Run(lab, THREE)
    run.wait_for(lab.random.uniform(0, run.duration))
    run.kill(run.coordinator())
    return run.judge()


@case(limit_s=120, soak=True, pairs=True)
def kill_a_worker_node_of_three(lab):
    run = Run(lab, THREE, slots=3)  # a group over two nodes: the survivor must notice
    run.wait_for(lab.random.uniform(0, run.duration))
    run.kill(run.host())
    return run.judge()


@case(limit_s=120, soak=True, pairs=True)
def kill_the_submitter_of_three(lab):
    run = Run(lab, THREE)
    run.wait_for(lab.random.uniform(0, run.duration))
    run.kill(run.submitter)
    return run.judge()


@case(limit_s=120, soak=True, pairs=True)
def kill_one_of_five(lab):
    run = Run(lab, FIVE)
    moment = lab.random.uniform(0, run.duration)
    choose = lab.random.choice([run.coordinator, run.host, lambda: run.submitter])
    run.wait_for(moment)
    run.kill(choose())
    return run.judge()


@case(limit_s=150, soak=True, pairs=True)
def kill_all_but_one(lab):
    """One after the other, the second as soon as what the first took has two copies again; the last node completes everything."""
    run = Run(lab, THREE)
    first, second = lab.random.sample(run.mesh.nodes, 2)
    run.wait_for(lab.random.uniform(0, run.duration))
    run.kill(first)
    run.wait_copies()
    run.kill(second)
    return run.judge(timeout=90)


# ---- silence ---------------------------------------------------------------------------------------------------------


def cut_off(lab, slots):
    """No reset, no refused connection: the others hear nothing any more. Afterwards the cable is plugged in again."""
    run = Run(lab, THREE, slots, wired=True)
    wait_step(run.log, run.identity, 1)
    time.sleep(lab.random.uniform(0, run.duration / 3))
    gone = lab.random.choice([run.host, run.coordinator])()
    index = run.mesh.nodes.index(gone)
    run.lose(gone, lambda: run.wire.cut(index))
    rest = [node for node in run.mesh.nodes if node is not gone]
    said = run.judge(viewer=rest[0])
    run.wire.join(index)
    last = wait_until(lambda: same_everywhere(run), 30, "all nodes to show the same after the cut is healed")
    expect(last["state"] == "completed", f"after the heal the experiment is {last['state']}")
    return said


@case(limit_s=150, soak=True, pairs=True)
def cut_a_node_off(lab):
    return cut_off(lab, slots=2)


@case(limit_s=150, soak=True, pairs=True)
def cut_through_a_group(lab):
    return cut_off(lab, slots=3)


def same_everywhere(run):
    """What all nodes show, if it is the same; else None."""
    seen = [node.json("show", run.identity)["experiment"] for node in run.mesh.nodes]
    trials = [[(t["state"], t["step"], t["hyperparameters"], t["metrics"]) for t in one["trials"]] for one in seen]
    same = all(one == trials[0] for one in trials) and len({one["state"] for one in seen}) == 1
    return seen[0] if same else None


# ---- daemons and workers ----------------------------------------------------------------------------------------------


def wait_step(log, identity, step, attempt=None):
    wait_until(lambda: any(s.step >= step and attempt in (None, s.attempt) for s in read_steps(log, identity)), 30,
               f"step {step}")


def expect_each_once(log, identity, ranks, steps, attempt=None):
    for rank in range(ranks):
        seen = [(s.attempt, s.step) for s in read_steps(log, identity, rank)]
        expect([step for _, step in seen] == list(range(1, steps + 1)),
               f"rank {rank} did not run each of {steps} steps once and in order, but {len(seen)}: {seen[:3]} ... {seen[-3:]}")
        expect(attempt is None or {number for number, _ in seen} == {attempt},
               f"rank {rank} trained in the attempts {sorted({number for number, _ in seen})}")


@case(limit_s=90, alone=True)
def kill_an_idle_coordinator(lab):
    """The daemon that coordinates, but hosts no worker, is killed: training does not even hesitate."""
    mesh = lab.mesh(THREE)
    log = lab.dir / "steps"
    for _ in range(12):
        identity = lab.submit(mesh.nodes[0], single(log, hidden=512, batch_size=16000, epochs=15, checkpoint_every=100))
        trial = wait_until(lambda: next((t for t in show(mesh, identity)["trials"] if t["state"] == "running"), None), 20,
                           "the trial to run")
        name = show(mesh, identity)["coordinator_name"]
        if all(slot["node_name"] != name for slot in trial["slots"]):
            break
        mesh.nodes[0].run("cancel", identity)
        wait_over(mesh, identity, 20, state="cancelled")
    else:
        raise AssertionError("twelve experiments in a row were coordinated by the node that hosts their workers")
    wait_step(log, identity, 20)
    mesh.by_name(name).kill_machine()
    killed_ms = time.time_ns() // 1_000_000
    final = wait_over(mesh, identity, 60)
    expect(final["trials"][0]["attempt"] == 1, f"its attempt 1 was ended: {trial_states(final)}")
    expect(final["coordinator_name"] != name, f"{name} is dead and still coordinates")
    steps = read_steps(log, identity)
    expect_each_once(log, identity, 2, 15 * 4, attempt=1)
    gaps = [(b.ms - a.ms, b.ms) for a, b in zip(steps[10:], steps[11:])]  # the first steps wait for data and caches
    median = statistics.median(gap for gap, _ in gaps)
    before = max(gap for gap, at in gaps if at < killed_ms)
    after = max(gap for gap, at in gaps if at >= killed_ms)
    # What a busy machine lets them hesitate is little beside three of them and a second; a stall that the death causes would last
    # for its detection, at least two.
    expect(after <= 3 * median + 1000,
           f"after the coordinator's death a step took {after} ms; the median is {median} ms, before it at most {before} ms")
    return (f"steps of {median:.0f} ms, longest {after} ms in {(steps[-1].ms - killed_ms) / 1000:.1f} s after the kill, "
            f"{before} ms before")


def wait_lease(node, owner, identity, timeout):
    """Seconds until a slot of `owner` is leased to the experiment, as `node` sees it."""
    began = time.monotonic()

    def leased():
        return [s for s in node.json("slots")["slots"] if s["node_name"] == owner and s["experiment"] == identity]

    wait_until(leased, timeout, f"a slot of {owner} to be leased")
    return time.monotonic() - began


@case(limit_s=60, pairs=True)
def join_while_a_trial_waits(lab):
    """A trial that wants more slots than there are, and one for which all slots are busy: a new node serves them soon."""
    mesh = lab.mesh(1)
    first = mesh.nodes[0]
    log = lab.dir / "steps"
    wide = lab.submit(first, single(log, epochs=400) | {"resources": {"slots_per_trial": 3}})
    time.sleep(1)
    expect(show(mesh, wide)["trials"][0]["state"] == "queued", "a trial of 3 slots runs on a node of 2")
    expect(show(mesh, wide)["lacks"] == {"slots": 3, "kind": "any", "present": 2}, "it is not said why the trial waits")
    second = type(first)(mesh.base, "birch", build=lab.build)
    mesh.add(second)
    seconds = wait_lease(first, "birch", wide, 15)  # two to three where nothing else runs
    expect(show(mesh, wide)["lacks"] is None, "slots are said to lack that are there")
    wait_step(log, wide, 1)
    narrow = lab.submit(first, single(log, epochs=400) | {"name": "second"})
    time.sleep(1)
    expect(show(mesh, narrow)["trials"][0]["state"] == "queued", "two trials of 3 and 2 slots run on 4 slots")
    third = type(first)(mesh.base, "cedar", build=lab.build)
    mesh.add(third)
    again = wait_lease(first, "cedar", narrow, 15)
    return f"leased {seconds:.1f} s and {again:.1f} s after the new daemon answered"


@case(limit_s=240, pairs=True, whole=True)
def restart_daemons_under_a_trial(lab):
    """SIGTERM and SIGKILL of shoald alone, of each of two nodes in turn: workers go on and are adopted, no step is lost."""
    mesh = lab.mesh(2, slots="cpu:1")
    log = lab.dir / "steps"
    epochs = 36
    identity = lab.submit(mesh.nodes[0], single(log, hidden=256, batch_size=2500, epochs=epochs))
    wait_step(log, identity, 20)
    workers = {pid for pid, _ in workers_of(identity)}
    for with_signal in (signal.SIGTERM, signal.SIGKILL):
        for node in mesh.nodes:
            reached = read_steps(log, identity)[-1].step
            node.kill_daemon(with_signal)
            node.start()
            wait_step(log, identity, reached + 30)
            expect({pid for pid, _ in workers_of(identity)} == workers,
                   f"the workers did not outlive {with_signal.name} of {node.name}'s daemon")
            if with_signal == signal.SIGTERM:  # it came back on another port, which the other one must have heard of
                mesh.wait_alive(2)
                node.listen = node.json("status")["address"]
    reached = read_steps(log, identity)[-1].step
    expect(reached < epochs * 22, "the trial was over before the last restart")
    final = wait_over(mesh, identity, 180)
    expect(final["trials"][0]["attempt"] == 1, f"its attempt 1 was ended: {trial_states(final)}")
    expect_each_once(log, identity, 2, epochs * 22, attempt=1)
    return f"four restarts before step {reached} of {epochs * 22}"


@case(limit_s=90, pairs=True)
def restart_all_daemons_at_once(lab):
    mesh = lab.mesh(THREE)
    log = lab.dir / "steps"
    identity = lab.submit(mesh.nodes[0], single(log, hidden=128) | {"resources": {"slots_per_trial": 3}})
    wait_step(log, identity, 20)
    for node in mesh.nodes:
        node.listen = node.json("status")["address"]  # where the others will look for it: nobody is left to ask
    for node in mesh.nodes:
        node.kill_daemon(signal.SIGKILL)
    reached = read_steps(log, identity)[-1].step
    expect(reached < STEPS, "the trial was over before the daemons were killed")
    for node in mesh.nodes:
        node.start()
    final = wait_over(mesh, identity, 60)
    expect(final["trials"][0]["attempt"] == 1, f"its attempt 1 was ended: {trial_states(final)}")
    expect_each_once(log, identity, 3, STEPS, attempt=1)
    return f"at step {reached} of {STEPS}"


def free_slots(mesh):
    return [s for s in mesh.living()[0].json("slots")["slots"] if s["state"] == "free"]


def final_hashes(log, lines):
    """{rank: hash} of the one trial whose lines begin at `lines` in the file of final hashes."""
    rows = hash_file(log).read_text().splitlines()[lines:]
    return {row.split()[2]: row.split()[3] for row in rows}


@case(limit_s=180)
def pause_resume_cancel(lab):
    """A paused and resumed run ends with the bits of one that was left alone; a cancelled one leaves nothing behind."""
    mesh = lab.mesh(2)
    node = mesh.nodes[0]
    log = lab.dir / "steps"
    length = {"hidden": 64, "epochs": 21}
    alone = lab.submit(node, single(log, **length))
    wait_over(mesh, alone, 60)
    undisturbed_hashes = final_hashes(log, 0)
    expect(len(undisturbed_hashes) == 2 and len(set(undisturbed_hashes.values())) == 1,
           f"the ranks' parameters differ: {undisturbed_hashes}")

    identity = lab.submit(node, single(log, **length))
    wait_step(log, identity, 20)
    node.run("pause", identity)
    wait_until(lambda: show(mesh, identity)["state"] == "paused" and len(free_slots(mesh)) == 4, 30, "the pause")
    expect(workers_of(identity) == [], "workers run on in a paused experiment")
    held = len(read_steps(log, identity))
    expect(held < 21 * 55, "the run was over before the pause")
    time.sleep(1)
    expect(len(read_steps(log, identity)) == held and show(mesh, identity)["state"] == "paused", "a paused run goes on")
    node.run("resume", identity)
    wait_over(mesh, identity, 60)
    expect_each_once(log, identity, 2, 21 * 55)
    expect(final_hashes(log, 2) == undisturbed_hashes, "the resumed run ends with other parameters than the undisturbed one")

    identity = lab.submit(node, single(log, epochs=400))
    wait_step(log, identity, 20)
    node.run("cancel", identity)
    wait_over(mesh, identity, 20, state="cancelled")
    wait_until(lambda: len(free_slots(mesh)) == 4 and workers_of(identity) == [], 20, "the slots to be free")
    return f"paused at step {held} of {21 * 55}"


@case(limit_s=90)
def a_worker_that_was_asked_to_leave_is_not_done(lab):
    """It is asked to stop, its daemon is killed, and the next one finds a disk on which nothing of that is written: a worker that
    leaves with status 0, before this daemon comes or after it, has not completed its trial."""
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    for leaves in ("before", "after"):
        log, asked, may_leave = (lab.dir / f"{word}-{leaves}" for word in ("steps", "asked", "may-leave"))
        program = (f"[ ! -e {asked} ] || exit 0; {step_log(log)} shoal-train mlp || exit 1; touch {asked}; "
                   f"until [ -e {may_leave} ]; do sleep 0.05; done")
        identity = lab.submit(node, single(log, slots=1, epochs=400) | {"entrypoint": program})
        wait_step(log, identity, 20)
        node.kill_daemon(signal.SIGTERM)
        old = lab.dir / f"old-{leaves}"
        shutil.copytree(node.dir / "state", old)
        node.start()
        node.run("pause", identity)
        wait_until(asked.exists, 20, "the training to leave")
        node.kill_daemon()
        shutil.rmtree(node.dir / "state")
        shutil.copytree(old, node.dir / "state")
        if leaves == "before":
            may_leave.touch()
            wait_until(lambda: not workers_of(identity), 20, "the worker to leave")
        node.start()
        expect(leaves == "before" or workers_of(identity), "the worker did not outlive its daemon")
        may_leave.touch()
        trial = wait_over(mesh, identity, 30)["trials"][0]
        expect(trial["attempt"] == 2 and trial["restarts"] == 0, f"left {leaves} the daemon came: {trial}")


@case(limit_s=90, pairs=True)
def kill_one_worker(lab):
    """Not its machine, only the program: the attempt fails, the next one goes on from the last checkpoint."""
    mesh = lab.mesh(2)
    log = lab.dir / "steps"
    identity = lab.submit(mesh.nodes[0], single(log, hidden=64, epochs=12))
    wait_step(log, identity, 100)
    victims = [pid for pid, environment in workers_of(identity) if environment["SHOAL_RANK"] == "1"
               and program_of(pid) == "shoal-train"]
    expect(len(victims) == 1, f"processes of rank 1: {victims}")
    os.kill(victims[0], signal.SIGKILL)
    killed_ms = time.time_ns() // 1_000_000
    final = wait_over(mesh, identity, 60)
    trial = final["trials"][0]
    expect(trial["attempt"] == 2 and trial["restarts"] == 1, f"not completed by the second attempt: {trial}")
    steps = read_steps(log, identity)
    expect({s.step for s in steps} == set(range(1, 12 * 55 + 1)), "not each step was run")
    again = len(steps) - 12 * 55
    unnoticed = sum(s.attempt == 1 and s.ms >= killed_ms - REPLICATE_MS for s in steps)
    expect(again <= CHECKPOINT_EVERY + unnoticed, f"{again} steps were run again")
    seconds = (next(s.ms for s in steps if s.attempt == 2) - killed_ms) / 1000
    return f"trained on {seconds:.1f} s after the kill, {again} steps run again"
