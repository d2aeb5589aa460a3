"""What programs leave: kept files outlive their worker, its node, the coordinator and the submitter."""

import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

from lab import Skip, case, expect, show, wait_over, wait_until
from look import refusal, workers_of
from mesh import ROOT
from torch_venv import python_with

PYTHON = "/usr/bin/python3"
SCRIPTS = Path(__file__).parent / "scripts"
PROGRAMS = Path(__file__).parent / "programs"


def submit(node, entrypoint, script, **more):
    """Submits a script from a context that is gone afterwards."""
    script = script if isinstance(script, Path) else SCRIPTS / script
    context = node.tree / f"context-{script.stem}"
    shutil.rmtree(context, ignore_errors=True)
    context.mkdir()
    shutil.copy(script, context / script.name)
    config = {"name": script.stem.replace("_", "-"), "entrypoint": entrypoint, **more}
    (context / "experiment.yaml").write_text(json.dumps(config))
    identity = node.run("submit", context / "experiment.yaml").split()[-1]
    shutil.rmtree(context)
    return identity


def logs(node, identity):
    return node.run("logs", f"{identity}/0", check=False)


def outputs(node, identity):
    """What workers have left by now, as the daemon's records have it; [] if nothing."""
    done = node.run("output", "ls", f"{identity}/0", "--json", check=False)
    return [json.loads(line) for line in done.splitlines() if line.startswith("{")]


def newest(node, identity, pattern):
    """The highest number in the paths of the kept files that match the pattern; 0: there is none."""
    numbers = [int(found[1]) for entry in outputs(node, identity) if (found := re.search(pattern, entry["path"]))]
    return max(numbers, default=0)


def kill_programs(identity, rank=None):
    """SIGKILL for the program itself (not its shoal-keep), as the kernel does when memory is short."""
    for pid, environment in workers_of(identity):
        try:
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            if "keep" not in name and rank in (None, environment.get("RANK")):
                os.kill(pid, signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            pass


@case(limit_s=60)
def a_killed_program_goes_on_from_its_own_newest_file(lab):
    """A script that knows nothing of Shoal keeps checkpoints/; its process is killed, and its next attempt goes on."""
    mesh = lab.mesh(2, slots="cpu:1")
    alder, birch = mesh.nodes
    identity = submit(alder, f"{PYTHON} plain_save.py 25 0.3", "plain_save.py", keep=["checkpoints/"])
    wait_until(lambda: newest(alder, identity, r"epoch_0*(\d+)") >= 6, 40, "six epochs to be kept")
    kill_programs(identity)
    wait_over(mesh, identity, 40)
    log = logs(alder, identity)
    went_on = [int(n) for n in re.findall(r"goes on from checkpoints/epoch_0*(\d+)", log)]
    expect(went_on and went_on[0] >= 6, f"the next attempt began anew, or too early: {log}")
    for node in (alder, birch):
        target = node.tree / "got"
        node.run("output", "get", f"{identity}/0", "work/checkpoints", target)
        expect(sorted(os.listdir(target))[-1] == "epoch_00025.bin", f"{node.name} has {sorted(os.listdir(target))}")


def code_holders(mesh, submitter):
    """The names of the nodes that have had the code."""
    told = "".join(node.log.read_text(errors="replace") for node in mesh.nodes)
    return {submitter.name, *re.findall(r"the code of plain-save is on (\w+)", told)}


@case(limit_s=180)
def kept_files_survive_the_submitter_the_coordinator_and_the_node(lab):
    """The same script; its submitter, its coordinator and the host of its worker die for good, one after the other."""
    mesh = lab.mesh(5, slots="none", start=False)
    for node in mesh.nodes[1:4]:
        node.slots = "cpu:1"
    mesh.start()
    alder = mesh.nodes[0]
    identity = submit(alder, f"{PYTHON} plain_save.py 150 0.3", "plain_save.py", keep=["checkpoints/"])
    kept = 0
    for victim in ("submitter", "coordinator", "host"):
        viewer = mesh.living()[-1]
        wait_until(lambda: viewer.json("status")["nodes_alive"] == len(mesh.living()), 30, "the dead to be known")
        kept = newest(viewer, identity, r"epoch_0*(\d+)")
        wait_until(lambda: newest(viewer, identity, r"epoch_0*(\d+)") >= kept + 12, 60, "twelve further epochs to be kept")
        kept = newest(viewer, identity, r"epoch_0*(\d+)")
        living = [node.name for node in mesh.living()]
        seen = wait_until(lambda: now if (now := show(mesh, identity))["coordinator_name"] in living else None, 30,
                          "a living coordinator")
        name = {"submitter": alder.name, "coordinator": seen["coordinator_name"],
                "host": seen["trials"][0]["slots"][0]["node_name"]}[victim]
        others = {node.name for node in mesh.living()} - {name}
        wait_until(lambda: others & code_holders(mesh, alder), 40, "a copy of the code elsewhere")
        lab.note(f"epoch {kept}: the {victim}, {name}, dies")
        mesh.by_name(name).kill_machine()
        if name == seen["trials"][0]["slots"][0]["node_name"]:
            break  # a trial whose host dies twice soon after its start is given up
    viewer = mesh.living()[-1]
    wait_over(mesh, identity, 120, viewer=viewer)
    log = logs(viewer, identity)
    went_on = [int(n) for n in re.findall(r"goes on from checkpoints/epoch_0*(\d+)", log)]
    # The copy of the last few epochs may still have been under way.
    expect(went_on and went_on[-1] >= kept - 4, f"the last attempt did not go on from epoch {kept}: {log}")
    for node in mesh.living():
        expect(newest(node, identity, r"epoch_0*(\d+)") == 150, f"{node.name} sees {outputs(node, identity)}")


def torch_or_skip():
    if subprocess.run([PYTHON, "-c", "import torch.distributed"], capture_output=True).returncode != 0:
        raise Skip("PyTorch is not installed: tools/setup --torch installs it")


@case(limit_s=180)
def a_plain_torch_script_goes_on_after_its_host_died(lab):
    """examples/plain-save: torch.save, two ranks on two hosts; the host of rank 0 dies."""
    torch_or_skip()
    mesh = lab.mesh(4, slots="cpu:1")
    alder, birch, cedar, dogwood = mesh.nodes
    identity = submit(dogwood, f"{PYTHON} train.py --epochs 25 --pause 0.4", ROOT / "examples" / "plain-save" / "train.py",
                      keep=["checkpoints/"], resources={"slots_per_trial": 2})
    wait_until(lambda: newest(dogwood, identity, r"epoch_0*(\d+)") >= 6, 90, "six epochs to be kept")
    host = show(mesh, identity)["trials"][0]["slots"][0]["node_name"]
    victim = next(node for node in mesh.nodes if node.name == host)
    victim.kill_machine()
    viewer = next(node for node in mesh.nodes if node is not victim)
    wait_over(mesh, identity, 120, viewer=viewer)
    log = logs(viewer, identity)
    went_on = [int(n) for n in re.findall(r"goes on from checkpoints/epoch_0*(\d+)", log)]
    expect(len(went_on) == 2 and went_on[0] == went_on[1] >= 4, f"not both ranks went on from one file: {log}")
    expect(newest(viewer, identity, r"epoch_0*(\d+)") == 25, "the last file is not kept")


@case(limit_s=120, whole=True)
def the_plain_torch_script_runs_the_same_under_torchrun(lab):
    """examples/plain-save, killed and started again by hand: the same losses as under Shoal, epoch by epoch."""
    torch_or_skip()
    script = ROOT / "examples" / "plain-save" / "train.py"
    directory = lab.dir / "torchrun"
    directory.mkdir()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "USE_LIBUV": "0"}
    text = ""
    for port, epochs in ((29431, "3"), (29432, "6")):
        done = subprocess.run([PYTHON, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--rdzv_backend", "c10d",
                               "--rdzv_endpoint", f"127.0.0.1:{port}", "--rdzv_id", "x",
                               "-r", "1", "-t", "1", "--log_dir", directory / "log",  # Debian's fails without
                               script, "--epochs", epochs], cwd=directory, env=environment, capture_output=True, text=True, timeout=60)
        expect(done.returncode == 0, f"torchrun: {done.stderr[-1500:]}")
        text += done.stdout
    mesh = lab.mesh(2, slots="cpu:1")
    alder = mesh.nodes[0]
    identity = submit(alder, f"{PYTHON} train.py --epochs 6", script, keep=["checkpoints/"], resources={"slots_per_trial": 2})
    wait_over(mesh, identity, 60)
    losses = [sorted(re.findall(r"epoch (\d+) loss ([\d.]+)", log)) for log in (text, logs(alder, identity))]
    expect("goes on from checkpoints/epoch_00003.pt" in text, f"torchrun's second run began anew: {text}")
    same = len(losses[0]) == len(losses[1]) == 6 and all(a[0] == b[0] and abs(float(a[1]) - float(b[1])) < 1e-5
                                                          for a, b in zip(*losses))
    expect(same, f"losses differ: {losses}")


@case(limit_s=60)
def a_paused_program_goes_on_from_its_files(lab):
    """Pause ends a plain program by SIGTERM; resumed, perhaps elsewhere, it goes on."""
    mesh = lab.mesh(2, slots="cpu:1")
    alder, birch = mesh.nodes
    identity = submit(alder, f"{PYTHON} plain_save.py 14 0.4", "plain_save.py", keep=["checkpoints"])
    wait_until(lambda: newest(birch, identity, r"epoch_0*(\d+)") >= 3, 40, "three epochs to be kept")
    alder.run("pause", identity)
    wait_until(lambda: show(mesh, identity)["trials"][0]["state"] != "running", 30, "the trial to stop")
    kept = newest(birch, identity, r"^work/.*epoch_0*(\d+)")
    alder.run("resume", identity)
    wait_over(mesh, identity, 40)
    went_on = re.findall(r"goes on from checkpoints/epoch_0*(\d+)", logs(birch, identity))
    expect(went_on and int(went_on[-1]) >= kept >= 3, f"kept {kept}, then {logs(birch, identity)}")


def hub(lab, manner):
    mesh = lab.mesh(2, slots="cpu:1")
    alder, birch = mesh.nodes
    identity = submit(alder, f"{PYTHON} hub_save.py 4 2.7 {manner}", "hub_save.py", keep=["out"], max_restarts=0)
    wait_until(lambda: newest(birch, identity, r"out/checkpoint-(\d+)/trainer_state.json") >= 1, 60, "a directory to be kept")
    victim = next(node for node in mesh.nodes if node.name == show(mesh, identity)["trials"][0]["slots"][0]["node_name"])
    viewer = birch if victim is alder else alder
    victim.kill_machine()
    wait_over(mesh, identity, 90, viewer=viewer)
    log = logs(viewer, identity)
    expect("goes on from checkpoint-" in log, f"the next attempt began anew: {log}")
    kept = {entry["path"] for entry in outputs(viewer, identity) if entry["kind"] == "file"}
    expect(sum(path.startswith("work/out/checkpoint-4/") for path in kept) == 8, f"not all eight files: {kept}")


@case(limit_s=120)
def a_directory_written_file_by_file_is_kept_whole(lab):
    """Eight files a checkpoint; no attempt ever finds a part of a directory."""
    hub(lab, "direct")


@case(limit_s=120)
def a_directory_that_is_renamed_at_the_end_is_kept_whole(lab):
    """Eight files a checkpoint, under another name until they are complete."""
    hub(lab, "renamed")


@case(limit_s=120)
def shards_of_two_hosts_are_united(lab):
    """Each rank leaves its shard on its own host; after the death of a host the next attempt finds both on each."""
    mesh = lab.mesh(3, slots="cpu:1")
    identity = submit(mesh.nodes[2], f"{PYTHON} shard_save.py 8 2.7", "shard_save.py", keep=["dcp/"], keep_ranks="all",
                      resources={"slots_per_trial": 2}, max_restarts=0)
    viewer = mesh.nodes[2]
    wait_until(lambda: newest(viewer, identity, r"dcp/step_(\d+)/.metadata") >= 1, 60, "a step to be kept")
    hosts = [slot["node_name"] for slot in show(mesh, identity)["trials"][0]["slots"]]
    expect(len(set(hosts)) == 2, f"both ranks are on one host: {hosts}")
    victim = next(node for node in mesh.nodes if node.name == hosts[1])
    viewer = next(node for node in mesh.nodes if node is not victim)
    victim.kill_machine()
    wait_over(mesh, identity, 100, viewer=viewer)
    log = logs(viewer, identity)
    went_on = re.findall(r"rank (\d) goes on from step (\d+) with 2 shards", log)
    expect({rank for rank, _ in went_on} == {"0", "1"}, f"not both ranks went on with both shards: {log}")
    kept = {entry["path"] for entry in outputs(viewer, identity)}
    expect({f"work/dcp/step_8/__{rank}_0.distcp" for rank in (0, 1)} <= kept, f"not both shards are kept: {sorted(kept)}")


def distributed_checkpoint(lab, python, dies):
    """Of three hosts one is free; the host of rank `dies` is killed after a few steps, and both ranks go on from both shards."""
    steps = 8
    mesh = lab.mesh(3, slots="cpu:1")
    viewer = mesh.nodes[2]
    identity = submit(viewer, f"exec {python} dcp_train.py {steps} 2.7", PROGRAMS / "dcp_train.py", keep=["dcp/"], keep_ranks="all",
                      resources={"slots_per_trial": 2}, max_restarts=0)
    wait_until(lambda: newest(viewer, identity, r"dcp/step_(\d+)/.metadata") >= 2, 150, "two steps to be kept")
    hosts = [slot["node_name"] for slot in show(mesh, identity)["trials"][0]["slots"]]
    expect(len(set(hosts)) == 2, f"both ranks are on one host: {hosts}")
    victim = mesh.by_name(hosts[dies])
    victim.kill_machine()
    viewer = next(node for node in mesh.nodes if node is not victim)
    kept = newest(viewer, identity, r"dcp/step_(\d+)/.metadata")
    wait_over(mesh, identity, 240, viewer=viewer)
    log = logs(viewer, identity)
    went_on = dict(re.findall(r"rank (\d) goes on from step (\d+)", log))
    # The copy of the last step or two may still have been under way.
    expect(went_on.keys() == {"0", "1"} and went_on["0"] == went_on["1"] and int(went_on["0"]) >= max(1, kept - 2),
           f"{kept} steps were kept, and the ranks went on from {went_on}: {log}")
    last = sorted(entry["path"] for entry in outputs(viewer, identity)
                  if entry["kind"] == "file" and entry["path"].startswith(f"work/dcp/step_{steps}/"))
    expect(last == [f"work/dcp/step_{steps}/{name}" for name in (".metadata", "__0_0.distcp", "__1_0.distcp")], f"kept are {last}")
    totals = set(re.findall(r"rank \d of 2 is done with (\S+)", log))
    expect(len(totals) == 1, f"the ranks ended with {totals}: {log}")
    return totals.pop()


@case(limit_s=1500, whole=True)
def shards_of_torchs_distributed_checkpoint_are_united(lab):
    """FSDP over two hosts, saved by torch.distributed.checkpoint. Whichever host dies, the model at the end is the same."""
    python = python_with()
    totals = [distributed_checkpoint(lab, python, dies) for dies in (0, 1)]
    expect(totals[0] == totals[1], f"the models come to {totals}")


@case(limit_s=1500, whole=True)
def a_trainer_of_hugging_face_goes_on_after_its_host_died(lab):
    """The Trainer's own checkpoint directories, the model that save_pretrained writes at the end, and what is read of it elsewhere."""
    python = python_with("transformers==5.24.0", "accelerate")
    mesh = lab.mesh(2, slots="cpu:1")
    alder, birch = mesh.nodes
    identity = submit(alder, f"exec {python} hub_train.py 8 2.7", PROGRAMS / "hub_train.py", keep=["out/"], max_restarts=0,
                      environment={"variables": {"HF_HUB_OFFLINE": "1"}})
    wait_until(lambda: newest(birch, identity, r"out/checkpoint-(\d+)/trainer_state.json") >= 2, 150, "two directories to be kept")
    victim = mesh.by_name(show(mesh, identity)["trials"][0]["slots"][0]["node_name"])
    viewer = birch if victim is alder else alder
    victim.kill_machine()
    kept = newest(viewer, identity, r"out/checkpoint-(\d+)/trainer_state.json")
    wait_over(mesh, identity, 240, viewer=viewer)
    log = logs(viewer, identity)
    went_on = re.findall(r"goes on from out/checkpoint-(\d+)", log)
    expect(went_on and int(went_on[-1]) >= max(1, kept - 2), f"{kept} steps were kept: {log}")
    files = {}
    for entry in outputs(viewer, identity):
        if entry["kind"] == "file":
            files.setdefault(str(Path(entry["path"]).parent), set()).add(Path(entry["path"]).name)
    names = {"config.json", "generation_config.json", "model.safetensors", "optimizer.pt", "rng_state.pth", "scheduler.pt",
             "trainer_state.json", "training_args.bin"}
    expect(files["work/out/checkpoint-8"] == names, f"of the last checkpoint are kept {files}")
    shards = {name for name in files["work/out/model"] if name.endswith(".safetensors")}
    expect(len(shards) > 1 and "model.safetensors.index.json" in files["work/out/model"], f"of the model are kept {files}")
    viewer.run("output", "get", f"{identity}/0", "work/out/model", viewer.tree / "model")
    reads = ("import sys, transformers; m = transformers.GPT2LMHeadModel.from_pretrained(sys.argv[1]); "
             "print('read', repr(sum(p.double().sum().item() for p in m.parameters())))")
    done = subprocess.run([python, "-c", reads, viewer.tree / "model"], capture_output=True, text=True, timeout=200,
                          env={**os.environ, "HF_HUB_OFFLINE": "1"})
    expect(done.returncode == 0, f"the model cannot be read: {done.stderr[-1500:]}")
    written = re.findall(r"is done after 8 steps with (\S+)", log)
    expect(written == [done.stdout.split("read ")[1].strip()], f"written {written}, and {done.stdout}")


@case(limit_s=60)
def a_checkpoint_that_is_renamed_into_place_counts_at_once(lab):
    """$SHOAL_CHECKPOINT_DIR and $SHOAL_RESTORE_DIR from a shell script, and $SHOAL_OUTPUT_DIR without the key keep."""
    mesh = lab.mesh(2, slots="cpu:1")
    alder, birch = mesh.nodes
    script = alder.tree / "steps.sh"
    script.write_text("""n=0
[ -n "$SHOAL_RESTORE_DIR" ] && n=$(cat "$SHOAL_RESTORE_DIR"/*/step) && echo "restored $n"
while [ $n -lt 14 ]; do
  sleep 1; n=$((n + 1))
  mkdir "$SHOAL_CHECKPOINT_DIR/.part"; echo $n >"$SHOAL_CHECKPOINT_DIR/.part/step"
  mv "$SHOAL_CHECKPOINT_DIR/.part" "$SHOAL_CHECKPOINT_DIR/step-$n"
  echo "step $n" >>"$SHOAL_OUTPUT_DIR/history"
  echo "saved $n"
done
""")
    identity = submit(alder, "sh steps.sh", script)
    wait_until(lambda: newest(birch, identity, r"checkpoint/step-(\d+)/step") >= 3, 30, "a third step to be kept")
    kill_programs(identity)
    wait_over(mesh, identity, 40)
    restored = re.findall(r"restored (\d+)", logs(birch, identity))
    expect(restored and int(restored[0]) >= 3, f"nothing was restored: {logs(birch, identity)}")
    birch.run("output", "get", f"{identity}/0", "output/history", birch.tree / "got")
    lines = (birch.tree / "got" / "history").read_text().splitlines()
    expect(lines[-1] == "step 14", f"the history ends with {lines[-3:]}")
    paths = [entry["path"] for entry in outputs(birch, identity)]
    expect(sum(path.startswith("checkpoint/step-") and path.endswith("/step") for path in paths) == 1, f"not one checkpoint: {paths}")
    listed = birch.json("checkpoint", "ls", identity)["checkpoints"]
    expect([(c["trial"], c["path"], c["bytes"]) for c in listed] == [(0, "step-14", 3)], f"checkpoint ls: {listed}")
    expect(listed[0]["holders"], f"no node holds the checkpoint: {listed}")
    said = refusal(birch, "checkpoint", "get", f"{identity}/0", birch.tree / "none", code=4)
    expect("is checkpoint/step-14, which its program has left; `shoal output get EXP/0 checkpoint DIR` gets it" in said, said)


@case(limit_s=60)
def kept_paths_that_lead_out_are_refused(lab):
    """At submit, with the path in the sentence; and what is not there is said."""
    mesh = lab.mesh(1, slots="cpu:1")
    alder = mesh.nodes[0]
    for path in ("../up", "/tmp/x", "a/../../b", ".", ""):
        context = alder.tree / "refused"
        context.mkdir(exist_ok=True)
        (context / "experiment.yaml").write_text(json.dumps({"entrypoint": "true", "keep": [path]}))
        done = subprocess.run([f"{lab.build}/shoal", "--dir", str(alder.dir), "submit", str(context / "experiment.yaml")],
                              capture_output=True, text=True)
        expect(done.returncode == 1 and "keep" in done.stderr, f"{path!r} is not refused: {done.returncode} {done.stderr}")
    identity = submit(alder, "echo hello", "plain_save.py")
    wait_over(mesh, identity, 30)
    for words, code, part in ((["ls", f"{identity}/0"], 4, "left no files"), (["ls", f"{identity}/7"], 4, "no trial 7"),
                              (["get", identity], 2, "EXP/TRIAL")):
        done = subprocess.run([f"{lab.build}/shoal", "--dir", str(alder.dir), "output", *words], capture_output=True, text=True)
        expect(done.returncode == code and part in done.stderr, f"output {words}: {done.returncode} {done.stderr}")
        expect("yet" not in done.stderr, f"the trial is over: {done.stderr}")


@case(limit_s=60)
def a_line_of_output_is_a_metric(lab):
    """A shell script reports; with the key off, and for lines that are no metrics, nothing happens."""
    mesh = lab.mesh(2, slots="cpu:1")
    alder, birch = mesh.nodes
    script = alder.tree / "report.sh"
    script.write_text("""echo "::shoal metric validation accuracy=0.5 step=1"
echo "::shoal metric validation accuracy=oops step=2"
echo "::shoal metric"
sleep 1.5
printf '\\r4/20 [##  ]'; printf '::shoal metric validation accu'; sleep 1; echo 'racy=0.91 step=120'
""")
    on = submit(alder, "sh report.sh", script, metrics_from_output=True, searcher={"metric": "accuracy", "smaller_is_better": False})
    off = submit(alder, "sh report.sh", script)
    for identity in (on, off):
        wait_over(mesh, identity, 30)
    points = [json.loads(line) for line in birch.run("metrics", f"{on}/0", "--json").splitlines()]
    expect([(p["step"], p["metrics"]["accuracy"]) for p in points] == [(1, 0.5), (120, 0.91)], f"points: {points}")
    trial = birch.json("show", on)["experiment"]["trials"][0]
    expect(trial["metrics"]["validation"]["accuracy"] == 0.91, f"the trial's metrics: {trial['metrics']}")
    expect("accuracy=oops" in birch.run("logs", f"{on}/0"), "a line that is no metric is not in the log")
    expect(birch.run("metrics", f"{off}/0").strip() == "", "there are metrics without the key")
    told = [line for node in mesh.nodes for line in node.run("events").splitlines() if "is malformed" in line]
    expect(len(told) == 1 and "accuracy=oops" in told[0] and "not as in '::shoal metric validation loss=0.5 step=10'" in told[0],
           f"the malformed line is told: {told}")


@case(limit_s=60)
def files_that_the_program_removed_do_not_come_back(lab):
    """A script that keeps its newest three files and ends by itself leaves these three; one that removes all leaves none."""
    mesh = lab.mesh(1, slots="cpu:2")
    alder = mesh.nodes[0]
    script = alder.tree / "three.sh"
    script.write_text("""cd "$SHOAL_OUTPUT_DIR"
for n in 1 2 3 4 5 6 7 8; do echo $n >file-$n; sleep 1; rm -f file-$((n - 3)); done
if [ "$1" = none ]; then sleep 2; rm file-*; fi
""")
    three = submit(alder, "sh three.sh", script)
    none = submit(alder, "sh three.sh none", script)
    wait_over(mesh, three, 40)
    kept = sorted(entry["path"] for entry in outputs(alder, three) if entry["kind"] == "file")
    expect(kept == ["output/file-6", "output/file-7", "output/file-8"], f"kept are {kept}")
    wait_over(mesh, none, 40)
    kept = [entry["path"] for entry in outputs(alder, none) if entry["kind"] == "file"]
    expect(kept == [], f"kept are {kept}")


@case(limit_s=60)
def files_beyond_the_limit_are_named_and_left_on_the_machine(lab):
    """keep_bytes_max: a sentence in the events, the run completes, and nothing is lost silently."""
    mesh = lab.mesh(1, slots="cpu:1")
    alder = mesh.nodes[0]
    script = alder.tree / "large.sh"
    script.write_text("head -c 3000000 /dev/zero >$SHOAL_OUTPUT_DIR/large\nsleep 4\n")
    identity = submit(alder, "sh large.sh", script, keep_bytes_max=2000000)
    wait_over(mesh, identity, 30)
    expect_set_aside(alder, identity)


def expect_set_aside(node, identity):
    """The node says where the file output/large of trial 0 is, of which experiment, and why; and it is there."""
    found = wait_until(lambda: re.search(r"(/\S+/left/\S+) has the last files of trial 0 of (.*)", node.run("events")), 20,
                       "the sentence about the files that stay")
    expect(identity[:8] in found[2] and "until you remove them" in found[2], f"the event: {found[0]}")
    events = node.run("events")
    expect("output/large" in events and "2000000 are allowed" in events, f"events: {events}")
    large = Path(found[1]) / "output" / "large"
    wait_until(large.exists, 20, f"{large}")
    expect(large.stat().st_size == 3000000, f"{large} is not whole")


@case(limit_s=60)
def a_failed_program_whose_files_are_too_large_has_its_last_words(lab):
    """keep_bytes_max: the files stay on the machine, and the trial still tells how its program ended."""
    mesh = lab.mesh(1, slots="cpu:1")
    alder = mesh.nodes[0]
    script = alder.tree / "words.sh"
    script.write_text("head -c 3000000 /dev/zero >$SHOAL_OUTPUT_DIR/large; echo LAST WORDS; exit 3\n")
    identity = submit(alder, "sh words.sh", script, keep_bytes_max=2000000, max_restarts=0)
    wait_over(mesh, identity, 30, state="failed")
    shown = alder.run("show", identity)
    expect("LAST WORDS" in shown, f"the last words are lost: {shown}")
    expect_set_aside(alder, identity)
