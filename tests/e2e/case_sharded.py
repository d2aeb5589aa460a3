"""Checkpoints of several parts: saved on four ranks, loaded on three and on two, whatever is lost between."""

from pathlib import Path

from case_python import PYTHON, refuse_sanitizers
from lab import case, expect, show, wait_over, wait_until
from look import refusal
from torch_venv import python_with

PROGRAMS = Path(__file__).resolve().parent / "programs"
STEPS = 150


class Life:
    """One rank in one attempt, by its file (programs/sharded_train.py)."""

    def __init__(self, path):
        lines = [line.split() for line in path.read_text().split("\n")[:-1]]  # the last one may be cut
        self.begun = bool(lines)
        if lines:
            self.attempt, self.rank, self.size, self.loaded = map(int, lines[0][1:5])
            self.digest = lines[0][5]
        self.saved = {int(line[1]): line[2] for line in lines if line[0] == "saved"}
        self.durable = max((int(line[1]) for line in lines if line[0] == "durable"), default=0)


def lives_of(log):
    lives = [Life(path) for path in log.parent.glob(f"{log.name}.*")]
    return sorted((life for life in lives if life.begun), key=lambda life: (life.attempt, life.rank))


def loads_what_was_saved(lab, mode):
    """Four ranks on four nodes; then a node dies, and once more: three ranks go on, then two. Each begins with a checkpoint as new as the
    newest durable one, and all ranks together have the very bytes that were saved at its step."""
    refuse_sanitizers(lab)
    python = python_with("numpy")
    mesh = lab.mesh(["alder", "birch", "cedar", "dogwood", "elm"], start=False)
    for node in mesh.nodes:
        node.slots = "none" if node.name == "alder" else "cpu:1"
    mesh.start()
    for node in mesh.nodes:
        wait_until(lambda node=node: node.json("status")["slots_free"] == 4 and not node.json("status")["syncing"], 60,
                   f"four free slots as {node.name} sees it")
    log = lab.dir / "log"
    identity = lab.submit(mesh.nodes[0], {
        "name": "sharded", "entrypoint": f"exec {python} sharded_train.py {mode} {log} {STEPS}", "max_restarts": 5,
        "resources": {"slots_per_trial": 4, "min_slots": 2, "max_slots": 4}, "searcher": {"name": "single", "metric": "loss"},
    }, {"sharded_train.py": (PROGRAMS / "sharded_train.py").read_text()})
    for size in (4, 3):
        wait_until(lambda size=size: any(life.size == size and life.durable > life.loaded for life in lives_of(log)), 90,
                   f"a durable checkpoint of {size} ranks")
        [row] = [row for row in show(mesh, identity)["trials"] if row["index"] == 0]
        coordinator = show(mesh, identity)["coordinator_name"]
        victim = next(slot["node_name"] for slot in row["slots"] if slot["node_name"] not in ("alder", coordinator))
        mesh.by_name(victim).kill_machine()
        lab.note(f"killed {victim}")
    wait_over(mesh, identity, 120)
    lives = lives_of(log)
    saved, durable = {}, 0
    sizes = []
    for attempt in sorted({life.attempt for life in lives}):
        ranks = [life for life in lives if life.attempt == attempt]
        loaded = {(life.loaded, life.digest) for life in ranks}
        expect(len(loaded) == 1, f"ranks of attempt {attempt} have loaded different states: {loaded}")
        [(step, digest)] = loaded
        expect(step >= durable, f"step {durable} was durable, and attempt {attempt} begins at {step}")
        expect(step == 0 or digest in saved[step], f"attempt {attempt} has loaded other bytes of step {step} than were saved")
        for life in ranks:
            for at, each in life.saved.items():
                saved.setdefault(at, set()).add(each)
        durable = max([durable] + [life.durable for life in ranks])
        sizes.append((ranks[0].size, step))
    lab.note(f"ranks and first steps: {sizes}")
    expect({size for size, step in sizes if step > 0} >= {2, 3}, f"sizes of the attempts with a checkpoint: {sizes}")


@case(limit_s=120)
def a_checkpoint_without_the_part_of_a_rank_is_not_begun_with(lab):
    """Rank 0's part of step 30 is stored, rank 1 ends before its own is: the next attempt begins with both parts of step 20. `shoal`
    shows, gets and verifies the parts."""
    refuse_sanitizers(lab)
    mesh = lab.mesh(["alder", "birch", "cedar"], start=False)
    for node in mesh.nodes:
        node.slots = "cpu:1"
    mesh.start()
    log = lab.dir / "log"
    identity = lab.submit(mesh.nodes[0], {
        "name": "parts", "entrypoint": f"exec {PYTHON} parts_train.py {log}", "max_restarts": 2,
        "resources": {"slots_per_trial": 2}, "searcher": {"name": "single", "metric": "loss"}, "checkpoint": {"save_trial_latest": 2},
    }, {"parts_train.py": (PROGRAMS / "parts_train.py").read_text()})
    final = wait_over(mesh, identity, 90)["trials"][0]
    expect(final["attempt"] == 2 and final["state"] == "completed", f"{final['state']} in attempt {final['attempt']}")
    begun = sorted(path.read_text().strip() for path in log.parent.glob(f"{log.name}.*"))
    expect(begun == [
        "begin 1 0 0 None", "begin 1 1 0 None",
        "begin 2 0 20 {'of': 0, 'step': 20}", "begin 2 1 20 {'of': 1, 'step': 20}"], f"the ranks began with {begun}")
    node = mesh.nodes[2]
    listed = node.json("checkpoint", "ls", identity)["checkpoints"]
    expect([(row["step"], row["attempt"], row["parts"]) for row in listed[:2]] == [(40, 2, 2), (30, 2, 2)], f"{listed}")
    expect("PARTS" in node.run("checkpoint", "ls", identity), "the table has no column of parts")
    node.run("checkpoint", "get", f"{identity}/0@40", node.tree / "got", "--unpack")
    files = sorted(path.relative_to(node.tree / "got").as_posix() for path in (node.tree / "got").rglob("*") if path.is_file())
    expect(files == ["part-0/metadata.json", "part-0/state.msgpack", "part-1/metadata.json", "part-1/state.msgpack"], f"{files}")
    rows = node.json("checkpoint", "verify", f"{identity}/0")["checkpoints"]
    expect({row["part"] for row in rows if row["step"] == 40} == {0, 1}, f"{rows}")
    expect(all(holder["state"] == "ok" for row in rows for holder in row["holders"]), f"{rows}")
    said = refusal(node, "fork", f"{identity}/0@40", code=1)
    expect("has 2 parts" in said, said)


@case(limit_s=400)
def fsdp_state_of_four_ranks_is_loaded_on_three_and_on_two(lab):
    loads_what_was_saved(lab, "fsdp")


@case(limit_s=400)
def zero_redundancy_state_of_four_ranks_is_loaded_on_three_and_on_two(lab):
    loads_what_was_saved(lab, "zero")
