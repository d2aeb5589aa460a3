"""Groups that change: workers are lost and join while the others train on in the same processes."""

import collections
import os
import signal
import statistics
import subprocess
import threading
import time

from case_owners import slots_of
from case_survival import single
from lab import case, expect, read_steps, show, wait_over, wait_until
from look import program_of, workers_of
from soak_elastic import Soak

PAUSE_S = 20  # nothing that is waited for here takes so long unless it is broken


def is_program(pid):
    return program_of(pid) == "shoal-train"


def elastic(log, slots, least, most, **hyperparameters):
    return single(log, **hyperparameters) | {"resources": {"slots_per_trial": slots, "min_slots": least, "max_slots": most}}


def prove_ledger(lab, mesh, log):
    """Every sample of every epoch was used once, says the log of all workers."""
    done = subprocess.run([mesh.nodes[0].bin / "shoal-train", "ledger", "--samples", "55000", *log.parent.glob(f"{log.name}.*")],
                          capture_output=True, text=True, timeout=60)
    expect(done.returncode == 0, done.stderr)
    lab.note(done.stdout.strip())


def steps_of_all(log, identity, ranks):
    return [step for rank in range(ranks) for step in read_steps(log, identity, rank)]


@case(limit_s=150, pairs=True)
def a_killed_worker_costs_its_group_a_step(lab):
    """Three nodes, three workers, one of them killed: the same attempt goes on in the same processes, with two and soon with
    three again, and every step is there."""
    mesh = lab.mesh(["alder", "birch", "cedar"])
    log = lab.dir / "steps"
    identity = lab.submit(mesh.nodes[0], elastic(log, 3, 2, 3, epochs=40))
    whole = wait_until(lambda: generation_of(log, identity, 3), 60, "three to train")  # two may begin before the third may grant
    before = {int(environment["SHOAL_RANK"]): pid for pid, environment in workers_of(identity) if is_program(pid)}
    lab.note(f"workers {before}")
    os.kill(before[1], signal.SIGKILL)
    wait_until(lambda: any(s.generation > whole for s in steps_of_all(log, identity, 3)), PAUSE_S, "the next generation")
    final = wait_over(mesh, identity, 120)
    trial = final["trials"][0]
    expect(trial["attempt"] == 1, f"attempt {trial['attempt']} completed, not the first")
    steps = steps_of_all(log, identity, 3)
    generations = {s.generation: s.size for s in steps}
    lab.note(f"generations {generations}")
    prove_ledger(lab, mesh, log)
    gaps = gap_ms(steps)
    lab.note(f"pauses between generations: {gaps} ms, median step {step_ms(steps):.1f} ms")


def generation_of(log, identity, size, after=0):
    """The first generation behind `after` in which so many have made some steps; None if there is none yet."""
    counts = collections.Counter(s.generation for s in steps_of_all(log, identity, 5) if s.size == size and s.generation > after)
    return min((generation for generation, count in counts.items() if count >= 20), default=None)


@case(limit_s=150, pairs=True)
def a_slot_taken_back_from_an_elastic_group(lab):
    """Three nodes, three workers; one slot is withheld: the two others go on in the same attempt, with every step made once,
    and when the slot is returned they are three again."""
    mesh = lab.mesh(3, slots="cpu:1")
    log = lab.dir / "steps"
    identity = lab.submit(mesh.nodes[0], elastic(log, 3, 2, 3, epochs=90))
    whole = wait_until(lambda: generation_of(log, identity, 3), 60, "three to train")  # two may begin before the third node may grant
    owner, viewer = mesh.nodes[2], mesh.nodes[0]
    began = time.monotonic()
    owner.json("withhold", "0")
    wait_until(lambda: slots_of(viewer, owner.name) == {0: "withheld"}, PAUSE_S, "the slot to be withheld")
    lab.note(f"the slot was its owner's after {time.monotonic() - began:.1f} s")
    rest = wait_until(lambda: generation_of(log, identity, 2, after=whole), PAUSE_S, "two to go on")
    owner.run("withhold", "--return")
    wait_until(lambda: generation_of(log, identity, 3, after=rest), 60, "three to train again")
    final = wait_over(mesh, identity, 120)
    expect(final["trials"][0]["attempt"] == 1, f"attempt {final['trials'][0]['attempt']} completed, not the first")
    steps = steps_of_all(log, identity, 4)
    lab.note(f"pauses between generations: {gap_ms(steps)} ms, median step {step_ms(steps):.1f} ms")


@case(limit_s=150, pairs=True)
def the_lowest_rank_of_two_gives_its_slot_back(lab):
    """Two nodes, two workers; the slot of rank 0 is withheld: it goes on once more as rank 1, and the other alone in the same
    attempt, with every sample used once."""
    mesh = lab.mesh(2, slots="cpu:1")
    log = lab.dir / "steps"
    identity = lab.submit(mesh.nodes[0], elastic(log, 2, 1, 2, epochs=30))
    whole = wait_until(lambda: generation_of(log, identity, 2), 60, "two to train")  # one may begin before the other may grant
    first = show(mesh, identity)["trials"][0]["slots"][0]["node_name"]  # in the order of ranks
    owner, other = sorted(mesh.nodes, key=lambda node: node.name != first)
    owner.json("withhold", "0")
    wait_until(lambda: slots_of(other, owner.name) == {0: "withheld"}, PAUSE_S, "the slot to be withheld")
    wait_until(lambda: generation_of(log, identity, 1, after=whole + 1), PAUSE_S, "one to go on")
    final = wait_over(mesh, identity, 120)
    expect(final["trials"][0]["attempt"] == 1, f"attempt {final['trials'][0]['attempt']} completed, not the first")
    prove_ledger(lab, mesh, log)
    lab.note(f"generations {({s.generation: s.size for s in steps_of_all(log, identity, 2)})}")


def gap_ms(steps):
    """From the last step of a generation to the first of the next."""
    gaps = {}
    for generation in sorted({s.generation for s in steps})[1:]:
        last = max(s.ms for s in steps if s.generation < generation)
        first = min(s.ms for s in steps if s.generation == generation)
        gaps[generation] = first - last
    return gaps


def step_ms(steps):
    times = sorted(s.ms for s in steps if s.rank == 0)
    return statistics.median(b - a for a, b in zip(times, times[1:]))


def lose_a_node(lab, how, coordinates):
    """Four nodes, four workers; one node is lost, silently or by SIGKILL of all that runs there, the one that coordinates or
    another: the three others go on in the same attempt."""
    mesh, wire = lab.wired(["alder", "birch", "cedar", "dogwood"], slots="cpu:1")
    mesh.start()
    log = lab.dir / "steps"
    identity = lab.submit(mesh.nodes[0], elastic(log, 4, 2, 4, epochs=60))
    whole = wait_until(lambda: generation_of(log, identity, 4), 60, "four to train")  # fewer may begin before all may grant
    seen = show(mesh, identity)
    name, begun = seen["coordinator_name"], seen["trials"][0]["attempt"]  # the first, unless two nodes began to coordinate at once
    victim = next(node for node in mesh.nodes if (node.name == name) == coordinates)
    viewer = next(node for node in mesh.nodes if node is not victim)
    lost_ms = time.time_ns() // 1_000_000
    if how == "cut":
        wire.cut(mesh.nodes.index(victim))
    else:
        victim.kill_machine()
    wait_until(lambda: any(s.generation > whole for s in steps_of_all(log, identity, 4)), PAUSE_S, "the next generation")
    first = min(s.ms for s in steps_of_all(log, identity, 4) if s.generation > whole)
    sizes = {s.generation: s.size for s in steps_of_all(log, identity, 4)}
    lab.note(f"{how}, {'coordinator' if coordinates else 'another'}: trained again after {first - lost_ms} ms, {sizes}")
    final = wait_over(mesh, identity, 120, viewer=viewer)
    expect(final["trials"][0]["attempt"] == begun, f"attempt {final['trials'][0]['attempt']} completed, not {begun}")
    prove_ledger(lab, mesh, log)


@case(limit_s=200, pairs=True)
def a_node_that_is_cut_off_leaves_its_group(lab):
    lose_a_node(lab, "cut", coordinates=False)


@case(limit_s=200, pairs=True)
def a_coordinator_that_is_cut_off_leaves_its_group(lab):
    lose_a_node(lab, "cut", coordinates=True)


@case(limit_s=200, pairs=True)
def a_killed_coordinator_leaves_its_group(lab):
    lose_a_node(lab, "killed", coordinates=True)


class Hindered:
    """A process that is stopped four fifths of the time, as by a program that its owner runs beside it."""

    def __init__(self, pid):
        self.pid, self.is_over = pid, threading.Event()
        self.thread = threading.Thread(target=self.hinder)
        self.thread.start()

    def hinder(self):
        try:
            while not self.is_over.wait(0.001):
                os.kill(self.pid, signal.SIGSTOP)
                time.sleep(0.004)
                os.kill(self.pid, signal.SIGCONT)
        except ProcessLookupError:
            pass

    def end(self):
        self.is_over.set()
        self.thread.join()


@case(limit_s=120, alone=True)
def the_part_of_a_slow_worker_follows_its_speed(lab):
    """Two nodes, two workers, `balance: on`: one is hindered for a while, and has a smaller part of each batch until it is let
    go. Every sample of every epoch is used once."""
    mesh = lab.mesh(["alder", "birch"], slots="cpu:1")
    log = lab.dir / "steps"
    identity = lab.submit(mesh.nodes[0], elastic(log, 2, 1, 2, epochs=60) | {"balance": True})

    def part():
        """Of rank 1 in its last full batch of two; None before the first."""
        return next((s.count for s in reversed(read_steps(log, identity, 1)) if s.batch_count == 1000 and s.size == 2), None)

    wait_until(lambda: generation_of(log, identity, 2), 60, "two to train")
    before = wait_until(part, PAUSE_S, "rank 1 to have a full batch with another")
    pid = next(pid for pid, environment in workers_of(identity) if environment["SHOAL_RANK"] == "1" and is_program(pid))
    hindered = Hindered(pid)
    lab.at_end.append(hindered.end)
    wait_until(lambda: part() < 0.7 * before, PAUSE_S, "the slow one to have less")
    slow = part()
    hindered.end()
    wait_until(lambda: part() > slow, PAUSE_S, "it to have more again")
    lab.note(f"parts of 1000: {before}, hindered {slow}, then {part()}")
    final = wait_over(mesh, identity, 100)
    expect(final["trials"][0]["attempt"] == 1, f"attempt {final['trials'][0]['attempt']} completed, not the first")
    prove_ledger(lab, mesh, log)


@case(limit_s=480, pairs=True)
def a_storm_of_deaths_costs_a_group_no_sample(lab):
    """Twenty seconds of what tests/e2e/soak_elastic.py does for as long as one likes; too few epochs to judge accuracies."""
    return Soak(lab, 1 / 3, lab.note, undisturbed=0).run()


@case(limit_s=240, pairs=True, whole=True)
def a_worker_that_is_about_to_join_outlives_its_daemon(lab):
    """It has a number that no member of a group of two could have as its rank; its program begins when the next daemon is there."""
    mesh = lab.mesh(1)
    node = mesh.nodes[0]
    log, late, gate = lab.dir / "steps", lab.dir / "late", lab.dir / "gate"
    config = elastic(log, 2, 1, 2, epochs=90)
    config["entrypoint"] = f"while [ -e {late} ] && [ ! -e {gate} ]; do sleep 0.1; done; {config['entrypoint']}"
    identity = lab.submit(node, config)
    whole = wait_until(lambda: generation_of(log, identity, 2), 60, "two to train")
    late.touch()
    before = {environment["SHOAL_RANK"]: (pid, environment["SHOAL_TOKEN"]) for pid, environment in workers_of(identity)}
    tokens = {token for _, token in before.values()}
    os.kill(before["1"][0], signal.SIGKILL)
    wait_until(lambda: {environment["SHOAL_TOKEN"] for _, environment in workers_of(identity)} - tokens, PAUSE_S,
               "a worker to replace it")
    node.kill_daemon()
    node.start()
    gate.touch()
    wait_until(lambda: generation_of(log, identity, 2, after=whole), PAUSE_S, "two to train again")
    said = node.run("logs", f"{identity}/0")
    expect("does not follow the protocol" not in said, f"the daemon told it what cannot be:\n{said}")
    expect(wait_over(mesh, identity, 150)["trials"][0]["attempt"] == 1, "its group has not survived")
