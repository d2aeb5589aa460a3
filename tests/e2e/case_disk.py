"""Bad disks: bits that flip, and no room."""

import json
import os
import re
import shutil
import signal
import subprocess
import time

from lab import Skip, case, command, expect, show, wait_over, wait_until
from look import events_of, refusal

MIB = 1 << 20


def search(name, epochs, **more):
    return {"name": name, "entrypoint": "shoal-train mlp", "searcher": {"name": "single", "metric": "accuracy"},
            "hyperparameters": {"hidden": 64, "epochs": epochs, "checkpoint_every": 50}, **more}


def restart_with_flipped_chunks(lab, node):
    """Every chunk of more than a manifest's size gets a flipped bit while the daemon is away. Returns their hashes."""
    node.kill_daemon(signal.SIGTERM)
    done = subprocess.run([f"{lab.build}/flip_chunk", node.dir, "4096"], capture_output=True, text=True, timeout=20)
    expect(done.returncode == 0, f"flip_chunk: {done.stderr}")
    node.start()
    return done.stdout.split()


def checkpoint_from(node, identity, step):
    """The checkpoint's bytes as this node gives them."""
    out = node.tree / f"checkpoint-{time.monotonic_ns()}"
    node.run("checkpoint", "get", f"{identity}/0@{step}", out)
    files = [path for path in sorted(out.rglob("*")) if path.is_file()]
    expect(files, f"nothing was written to {out}")
    return [path.read_bytes() for path in files]


def copies(node, identity):
    """What `shoal checkpoint verify` says of the newest checkpoint's copies."""
    document = json.loads(node.run("checkpoint", "verify", f"{identity}/0", "--json", check=False))
    holders = document["checkpoints"][0]["holders"]
    return {holder["name"]: holder["state"] for holder in holders}


@case(limit_s=90)
def a_flipped_bit_is_found_and_another_copy_is_used(lab):
    """The only worker runs on birch, whose copies of code and checkpoint are damaged while the experiment is paused."""
    mesh = lab.mesh(["alder", "birch"], start=False)
    alder, birch = mesh.nodes
    alder.slots, birch.slots = "none", "cpu:1"
    mesh.start()
    files = {"part.bin": "".join(lab.random.choices("0123456789abcdef", k=200_000))}
    identity = lab.submit(alder, search("flips", 12), files)
    wait_until(lambda: (show(mesh, identity)["trials"][0].get("checkpoint") or {}).get("durable"), 40, "two copies")
    alder.run("pause", identity)
    wait_until(lambda: show(mesh, identity)["state"] == "paused" and show(mesh, identity)["counts"]["running"] == 0
               and len(show(mesh, identity)["trials"][0]["checkpoint"]["holders"]) == 2, 30, "the pause")
    paused = show(mesh, identity)["trials"][0]
    flipped = restart_with_flipped_chunks(lab, birch)
    expect(len(flipped) >= 2, f"code and checkpoint have chunks on birch: {flipped}")
    mesh.wait_alive(2)
    alder.run("resume", identity)
    trial = wait_over(mesh, identity, 60)["trials"][0]
    expect(trial["restarts"] == 0 and trial["step"] > paused["step"], f"before {paused}, after {trial}")
    log = alder.run("logs", f"{identity}/0")
    expect(f"steps {paused['checkpoint']['step']} to" in log, f"it did not resume from its checkpoint:\n{log}")
    lines = [text for text in events_of(birch) if "damaged" in text]
    named = {hash for hash in flipped if any(hash[:16] in text for text in lines)}
    expect(len(named) >= 2, f"of {flipped} the events name only {named}: {lines}")

    step = show(mesh, identity)["trials"][0]["checkpoint"]["step"]
    wanted = checkpoint_from(alder, identity, step)
    flipped = restart_with_flipped_chunks(lab, birch)
    mesh.wait_alive(2)
    expect(checkpoint_from(birch, identity, step) == wanted, "birch gives other bytes than alder")
    lines = [text for text in events_of(birch) if "damaged" in text]
    expect(any(hash[:16] in text for hash in flipped for text in lines), f"birch does not say so: {lines}")
    expect(copies(alder, identity) == {"alder": "ok", "birch": "ok"}, f"after the repair: {copies(alder, identity)}")

    restart_with_flipped_chunks(lab, birch)
    mesh.wait_alive(2)
    states = copies(alder, identity)
    expect(states == {"alder": "ok", "birch": "corrupt"}, f"checkpoint verify: {states}")
    refusal(alder, "checkpoint", "verify", f"{identity}/0", code=1)


def full_disk(lab, node, size):
    """A small file system of its own under the node's data directory; returns how to fill it up to `free` bytes."""
    if os.geteuid() != 0:
        raise Skip("only root can mount a small tmpfs")
    node.dir.mkdir(parents=True)
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "shoal-e2e", str(node.dir)],
                           capture_output=True, text=True)
    if mount.returncode != 0:
        raise Skip(f"no tmpfs can be mounted here: {mount.stderr.strip()}")
    lab.at_end.append(lambda: command("umount", "--lazy", str(node.dir)))
    filler = node.dir / "filler"

    def fill(free):
        room = os.statvfs(node.dir)
        missing = room.f_bavail * room.f_frsize - free
        old = filler.stat().st_size if filler.exists() else 0
        with open(filler, "ab") as file:
            if missing < 0:
                file.truncate(max(0, old + missing))
                return
            try:
                while missing > 0:
                    missing -= file.write(bytes(min(missing, 1 << 16)))
                    file.flush()
            except OSError:
                pass  # it is as full as it gets

    return fill


@case(limit_s=120)
def a_full_disk_grants_nothing_new_and_loses_nothing(lab):
    mesh = lab.mesh(["alder", "birch"], start=False, slots="cpu:1")
    alder, birch = mesh.nodes
    fill = full_disk(lab, birch, 140 * MIB)
    mesh.start()
    gate = lab.dir / "gate"
    waits = {"searcher": {"name": "single", "metric": "accuracy"}, "resources": {"slots_per_trial": 2}}
    running = lab.submit(alder, {"name": "running", "entrypoint": f"while [ ! -e {gate} ]; do sleep 0.1; done", **waits})
    wait_until(lambda: show(mesh, running)["state"] == "running", 20, "a trial on both nodes")
    expect(not birch.json("status")["disk_full"], "birch has room at first")

    fill(4 * MIB)
    wait_until(lambda: birch.json("status")["disk_full"], 20, "birch to notice that its disk is full")
    expect(any("the disk is full" in text for text in events_of(birch)), f"no event says so: {events_of(birch)}")
    (birch.tree / "more.yaml").write_text("name: more\nentrypoint: 'true'\nsearcher: {name: single, metric: loss}\n")
    expect("full" in refusal(birch, "submit", birch.tree / "more.yaml", code=1), "submit does not say why")
    waiting = lab.submit(alder, {"name": "waiting", "entrypoint": "true", **waits})

    fill(0)  # not a byte is left for anybody
    with_nothing = os.statvfs(birch.dir).f_bavail * os.statvfs(birch.dir).f_frsize
    expect(with_nothing < 64 * 1024, f"{with_nothing} bytes are still free")
    stored = birch.run("cancel", lab.submit(alder, {"name": "unwanted", "entrypoint": "true", **waits}))
    expect(re.search(r"\b2\b", stored), f"a record is written on both disks, the full one too: {stored}")
    before = show(mesh, running)["trials"][0]
    expect(before["attempt"] == 1 and before["state"] == "running", f"the trial under way: {before}")
    birch.kill_daemon()
    birch.start()  # its fences and leases are on the full disk: it adopts the worker
    mesh.wait_alive(2)
    wait_until(lambda: not birch.json("status")["syncing"], 20, "birch to be in step")
    states = {e["name"]: e["state"] for e in birch.json("ls")["experiments"]}
    expect(states == {"running": "running", "waiting": "queued", "unwanted": "cancelled"}, f"after a restart: {states}")
    gate.touch()
    trial = wait_over(mesh, running, 30)["trials"][0]
    expect(trial["attempt"] == 1 and trial["restarts"] == 0, f"the trial that ran on the full disk: {trial}")
    slots = {slot["node_name"]: slot["state"] for slot in alder.json("slots")["slots"]}
    expect(show(mesh, waiting)["trials"][0]["state"] == "queued", "a slot of the full node was granted")
    expect(slots["birch"] != "leased", f"slots while the disk is full: {slots}")

    fill(60 * MIB)
    wait_until(lambda: not birch.json("status")["disk_full"], 20, "birch to notice that there is room")
    expect(any("room again" in text for text in events_of(birch)), "no event says that there is room")
    wait_over(mesh, waiting, 40)
    expect(wait_over(mesh, lab.submit(birch, search("afterwards", 0.2)), 40)["best"] is not None, "no metric came through")


@case(limit_s=60)
def training_goes_on_while_the_disk_is_full(lab):
    """Checkpoints are not stored, and it is said; the one that was stored stays, and can be read."""
    mesh = lab.mesh(["alder", "birch"], start=False, slots="cpu:1")
    alder, birch = mesh.nodes
    alder.slots = "none"
    fill = full_disk(lab, birch, 140 * MIB)
    mesh.start()
    identity = lab.submit(alder, search("trains-on", 12))
    wait_until(lambda: (show(mesh, identity)["trials"][0].get("checkpoint") or {}).get("durable"), 30, "two copies")
    fill(0)
    held = show(mesh, identity)["trials"][0]["checkpoint"]["step"]
    trial = wait_over(mesh, identity, 40)["trials"][0]
    expect(trial["attempt"] == 1 and trial["restarts"] == 0, f"the trial was disturbed: {trial}")
    expect(held <= trial["checkpoint"]["step"] < trial["step"], f"checkpoints: {held} was held, now {trial}")
    expect(any("could not be stored" in text and "disk is full" in text for text in events_of(birch)), "no event says so")
    step = trial["checkpoint"]["step"]
    expect(checkpoint_from(birch, identity, step) == checkpoint_from(alder, identity, step), "its copies differ")


@case(limit_s=120)
def rot_is_found_and_mended_without_being_asked(lab):
    """Every large chunk of birch's disk has a flipped bit when its daemon starts; nobody reads any of them but the scrub."""
    mesh = lab.mesh(["alder", "birch"])
    alder, birch = mesh.nodes
    files = {"part.bin": "".join(lab.random.choices("0123456789abcdef", k=200_000))}
    identity = lab.submit(alder, search("rots", 1), files)
    wait_over(mesh, identity, 60)
    expect(set(copies(alder, identity).values()) == {"ok"}, "the copies are not good to begin with")
    flipped = restart_with_flipped_chunks(lab, birch)
    expect(flipped, "there is nothing on birch's disk that could rot")
    wait_until(lambda: birch.json("status")["scrub"]["damaged"] >= len(flipped), 60, "the scrub to find the flipped bits")
    wait_until(lambda: "whole again on this disk" in birch.run("events"), 20, "birch to say that a blob is whole again")
    wait_until(lambda: copies(alder, identity) == {"alder": "ok", "birch": "ok"}, 20, "good copies on both disks")
    expect(birch.json("status")["scrub"]["restored"] >= 1, "status does not count what was restored")


@case(limit_s=90)
def an_experiment_whose_code_is_lost_says_so(lab):
    """Both disks have lost it: users read why it does not begin, and can cancel it."""
    mesh = lab.mesh(["alder", "birch"], start=False)
    alder, birch = mesh.nodes
    alder.slots, birch.slots = "none", "cpu:1"
    mesh.start()
    birch.run("withhold")
    identity = lab.submit(alder, search("lost", 1))
    for node in mesh.nodes:
        node.kill_daemon(signal.SIGTERM)
        shutil.rmtree(node.dir / "chunks")
    for node in mesh.nodes:
        node.start()
    birch.run("withhold", "--return")
    why = "on birch its code cannot be fetched: No reachable node has the manifest of blob"
    wait_until(lambda: why in (show(mesh, identity)["trials"][0].get("reason") or ""), 60, f"the reason '{why}'")
    wait_until(lambda: why in birch.run("show", identity), 20, "people to read it")  # nothing is said while the next attempt begins
    birch.run("cancel", identity)
    wait_over(mesh, identity, 30, state="cancelled")
