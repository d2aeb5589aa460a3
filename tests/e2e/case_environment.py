"""What programs find: torchrun's variables, the shell, GPUs, the network's interface, hyperparameters, the host's variables."""

import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from case_owners import slots_of
from lab import Broken, Refused, Skip, case, expect, wait_over, wait_until
from look import program_of, workers_of
from mesh import ROOT
from torch_venv import python_with

PYTHON = "/usr/bin/python3"
PROGRAMS = Path(__file__).resolve().parent / "programs"

# What may differ, and why. With one version of PyTorch at most eight do.
REASONS = {
    "PYTHONUNBUFFERED": "output goes into a pipe and would come late",
    "USE_LIBUV": "Debian's PyTorch has no libuv, and from 2.4 on fails without this",
    "ACCELERATE_USE_CPU": "without it Accelerate trains each rank alone on processors",
    "OMP_NUM_THREADS": "from the processors of the slot, which torchrun does not look at",
    "GLOO_SOCKET_IFNAME": "the host's name means 127.0.1.1 on Debian",
    "NCCL_SOCKET_IFNAME": "NCCL may take a bridge of containers",
    "TP_SOCKET_IFNAME": "as for gloo",
    "TORCHELASTIC_USE_AGENT_STORE": "newer agents serve the store for rank 0; here rank 0 serves it itself",
    "TORCHELASTIC_SIGNALS_TO_HANDLE": "of newer versions only",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "torchrun gives the name of its own version only",
    "NCCL_ASYNC_ERROR_HANDLING": "as the one before: one of the two is torchrun's",
}
ADDRESSES = {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"}
PATHS = {"PWD", "OLDPWD", "_", "PATH", "PYTHONPATH", "TORCHELASTIC_ERROR_FILE"}


def output(lab, node, config, files=None, state="completed", timeout=60):
    identity = lab.submit(node, config, files)
    wait_over(lab.meshes[0], identity, timeout, state)
    return identity, of_rank(node, identity, 0)


def of_rank(node, identity, rank):
    return node.run("logs", f"{identity}/0", "--rank", str(rank))


def variables(text):
    return dict(line.split("=", 1) for line in text.splitlines() if re.match(r"[A-Za-z_]\w*=", line))


@case(limit_s=90)
def torchruns_variables_are_complete_and_the_count_rises(lab):
    mesh = lab.mesh(1, slots="cpu:3")
    node = mesh.nodes[0]
    identity = lab.submit(node, {"entrypoint": "env; [ $TORCHELASTIC_RESTART_COUNT = 2 ]", "max_restarts": 4,
                                 "resources": {"slots_per_trial": 3}})
    wait_over(mesh, identity, 60)
    for rank in range(3):
        found = variables(of_rank(node, identity, rank))
        wanted = {"RANK": str(rank), "WORLD_SIZE": "3", "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "3", "GROUP_RANK": "0",
                  "GROUP_WORLD_SIZE": "1", "ROLE_NAME": "default", "ROLE_RANK": str(rank), "ROLE_WORLD_SIZE": "3",
                  "TORCHELASTIC_RUN_ID": f"{identity}-0", "TORCHELASTIC_RESTART_COUNT": "2", "TORCHELASTIC_MAX_RESTARTS": "4",
                  "TORCHELASTIC_USE_AGENT_STORE": "False", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
                  "NCCL_ASYNC_ERROR_HANDLING": "1", "ACCELERATE_USE_CPU": "true"}
        wrong = {name: found.get(name) for name in wanted if found.get(name) != wanted[name]}
        expect(not wrong, f"rank {rank}: {wrong}")
        expect(all(found.get(name) for name in ("MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS", "TORCHELASTIC_ERROR_FILE")),
               f"rank {rank} lacks one: {found}")


@case()
def three_ranks_here_and_one_there_are_counted_by_host(lab):
    mesh = lab.mesh(["alder", "birch"], start=False)
    mesh.nodes[0].slots, mesh.nodes[1].slots = "cpu:3", "cpu:1"
    mesh.start()
    node = mesh.nodes[0]
    identity = lab.submit(node, {"entrypoint": "env", "resources": {"slots_per_trial": 4}})
    final = wait_over(mesh, identity, 60)
    hosts = [slot["node_name"] for slot in final["trials"][0]["slots"]]
    order = sorted(set(hosts), key=hosts.index)
    for rank, host in enumerate(hosts):
        found = variables(of_rank(node, identity, rank))
        wanted = {"RANK": rank, "WORLD_SIZE": 4, "ROLE_RANK": rank, "ROLE_WORLD_SIZE": 4, "LOCAL_RANK": hosts[:rank].count(host),
                  "LOCAL_WORLD_SIZE": hosts.count(host), "GROUP_RANK": order.index(host), "GROUP_WORLD_SIZE": 2}
        wrong = {name: found.get(name) for name in wanted if found.get(name) != str(wanted[name])}
        expect(not wrong, f"rank {rank} of {hosts}: {wrong}")


@case()
def even_hosts_have_the_same_number_of_ranks_and_a_trial_waits_for_them(lab):
    mesh = lab.mesh(["alder", "birch"], start=False)
    mesh.nodes[0].slots, mesh.nodes[1].slots = "cpu:3", "cpu:1"
    mesh.start()
    node = mesh.nodes[0]
    waiting = lab.submit(node, {"name": "four", "entrypoint": "env", "resources": {"slots_per_trial": 4, "even_hosts": True}})
    wait_until(lambda: "no nodes have 4 slots in such parts" in node.run("show", waiting), 30, "show says that no hosts are even")
    identity = lab.submit(node, {"name": "two", "entrypoint": "env", "resources": {"slots_per_trial": 2, "even_hosts": True}})
    wait_over(mesh, identity, 60)
    expect(of_rank(node, identity, 1).count("LOCAL_WORLD_SIZE=2") == 1, "two ranks are not on one host")
    node.run("cancel", waiting)


@case()
def whole_gpus_are_one_list_and_local_rank_its_index(lab):
    library = Path(lab.build) / "libfake_nvml.so"
    if not library.exists():
        raise Skip("libfake_nvml.so is not built")
    mesh = lab.mesh(1, slots="auto", wrap=["env", "FAKE_NVML=whole"], options=["--nvml", str(library)])
    node = mesh.nodes[0]
    script = ("import os; v = os.environ['CUDA_VISIBLE_DEVICES']; r = os.environ['LOCAL_RANK']\n"
              "print(f\"L={r} V={v} MINE={v.split(',')[int(r)]} {os.environ['CUDA_DEVICE_ORDER']}\")\n")
    identity, _ = output(lab, node, {"entrypoint": f"{PYTHON} s.py",
                                     "resources": {"slots_per_trial": 2, "slot_kind": "cuda"}}, {"s.py": script})
    seen = [of_rank(node, identity, rank).strip() for rank in range(2)]
    expect(seen == ["L=0 V=0,1 MINE=0 PCI_BUS_ID", "L=1 V=0,1 MINE=1 PCI_BUS_ID"], f"{seen}")


@case(limit_s=60)
def top_shows_how_much_a_gpu_is_used(lab):
    """alder is asked, and birch has the GPUs: what its driver's library says of the whole one and of the parts, which it does not tell."""
    library = Path(lab.build) / "libfake_nvml.so"
    if not library.exists():
        raise Skip("libfake_nvml.so is not built")
    mesh = lab.mesh(["alder", "birch"], start=False)
    alder, birch = mesh.nodes
    alder.slots, birch.slots, birch.options = "none", "auto", ["--nvml", str(library)]
    mesh.start()

    def gpus():
        slots = alder.json("top")["slots"]
        return len(slots) == 3 and all(slot["gpu_memory_bytes"] for slot in slots) and slots
    whole, *parts = wait_until(gpus, 40, "what birch's GPUs are used")
    expect((whole["gpu_percent"], whole["gpu_memory_bytes"]) == (37, whole["memory_bytes"] // 4), f"{whole}")
    expect([part["gpu_percent"] for part in parts] == [None, None], f"{parts}")
    page = alder.run("top")
    expect("37%" in page and "12.0 GiB of 48.0 GiB" in page, page)


@case(limit_s=90)
def a_gpu_is_not_busy_by_the_other_ranks_of_its_attempt(lab):
    """Rank 1 may have memory on the GPU of rank 0, which it sees; a program from outside is another matter."""
    library = Path(lab.build) / "libfake_nvml.so"
    if not library.exists():
        raise Skip("libfake_nvml.so is not built")
    busy, gpu = lab.dir / "busy", "GPU-11111111-2222-3333-4444-555555555555"
    mesh = lab.mesh(1, slots="auto", wrap=["env", "FAKE_NVML=whole", f"FAKE_NVML_BUSY_FILE={busy}"], options=["--nvml", str(library)])
    node = mesh.nodes[0]
    identity = lab.submit(node, {"entrypoint": "[ $RANK = 0 ] && exit 0; sleep 300 & wait",
                                 "resources": {"slots_per_trial": 2, "slot_kind": "cuda"}})

    def state():
        return list(dict(sorted(slots_of(node, node.name).items())).values())

    wait_until(lambda: state() == ["free", "leased"], 30, "rank 0 to be done")
    helper = wait_until(lambda: [pid for pid, _ in workers_of(identity) if program_of(pid) == "sleep"], 30, "rank 1's helper")[0]
    busy.write_text(f"{gpu} {helper}\n")
    one = lab.submit(node, {"entrypoint": "echo ran on $CUDA_VISIBLE_DEVICES", "resources": {"slot_kind": "cuda"}})
    wait_over(mesh, one, 30)
    busy.write_text(f"{gpu} 1\n")
    wait_until(lambda: state()[0] == "withheld", 30, "the GPU to be busy with a program from outside")
    busy.write_text(f"{gpu} {helper}\n")
    wait_until(lambda: state()[0] == "free", 30, "the GPU to be free for Shoal, though a worker of ours uses it")
    node.run("cancel", identity)


@case()
def mig_devices_are_one_to_a_rank_and_never_beside_a_whole_gpu(lab):
    library = Path(lab.build) / "libfake_nvml.so"
    if not library.exists():
        raise Skip("libfake_nvml.so is not built")
    mesh = lab.mesh(1, slots="auto", options=["--nvml", str(library)])
    node = mesh.nodes[0]
    identity, _ = output(lab, node, {"entrypoint": "echo L=$LOCAL_RANK R=$RANK V=$CUDA_VISIBLE_DEVICES",
                                     "resources": {"slots_per_trial": 2, "slot_kind": "cuda"}})
    seen = sorted(of_rank(node, identity, rank).strip() for rank in range(2))
    expect(all(re.fullmatch(r"L=0 R=\d V=MIG-[-0-9]+", line) for line in seen) and len({s.split("V=")[1] for s in seen}) == 2,
           f"{seen}")
    three = lab.submit(node, {"entrypoint": "true", "resources": {"slots_per_trial": 3, "slot_kind": "cuda"}})
    lacks = node.json("show", three)["experiment"]["lacks"]
    expect(lacks is not None and lacks["present"] == 2, f"three slots are not said to be lacking: {lacks}")
    node.run("cancel", three)


@case()
def job_scripts_are_run_by_bash_and_a_pipe_fails_with_its_first_part(lab):
    if shutil.which("bash") is None:
        raise Skip("there is no bash")
    mesh = lab.mesh(1, slots="cpu:2")
    node = mesh.nodes[0]
    files = {"activate": "export GREETING=hi\n"}
    for entrypoint, state, word in [
            ("source ./activate && echo $GREETING", "completed", "hi"),
            ("[[ a == a ]] && echo ok", "completed", "ok"),
            ("set -o pipefail; echo set", "completed", "set"),
            ("false; echo done", "completed", "done"),
            ("python3 -c 'import sys; print(\"x\"); sys.exit(3)' 2>&1 | tee out.log", "failed", "x")]:
        identity, text = output(lab, node, {"entrypoint": entrypoint, "max_restarts": 0}, files, state)
        expect(text.strip() == word, f"{entrypoint}: {text}")
        if state == "failed":
            expect("status 3" in node.run("show", identity), f"the status of the pipe is not 3: {node.run('show', identity)}")


@case()
def without_bash_it_is_sh(lab):
    hide = 'mount --bind /dev/null "$(readlink -f /bin/bash)" && exec "$@"'
    if subprocess.run(["unshare", "-m", "sh", "-c", hide, "sh", "true"], capture_output=True).returncode != 0:
        raise Skip("bash cannot be hidden here: that needs root, a mount namespace, and bash")
    mesh = lab.mesh(1, slots="cpu:1", wrap=["unshare", "-m", "sh", "-c", hide, "sh", "env", "PATH=/usr/bin:/bin"])
    _, text = output(lab, mesh.nodes[0], {"entrypoint": "false | true && echo $0"})
    expect(text.strip() == "/bin/sh", text)


@case()
def the_message_of_error_json_stands_above_the_log(lab):
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    script = ("import json, os\n"
              "json.dump({'message': {'message': 'ValueError: bad batch', 'extraInfo': {'py_callstack': 'x\\nValueError: bad batch\\n', 'timestamp': '1'}}},\n"
              "          open(os.environ['TORCHELASTIC_ERROR_FILE'], 'w'))\nprint('last words'); exit(1)\n")
    identity, _ = output(lab, node, {"entrypoint": f"{PYTHON} s.py", "max_restarts": 0}, {"s.py": script}, "failed")
    tail = node.json("show", identity)["experiment"]["trials"][0]["tail"]
    expect(tail.splitlines() == ["ValueError: bad batch", "x", "last words"], tail)
    identity, _ = output(lab, node, {"entrypoint": "mkfifo $TORCHELASTIC_ERROR_FILE; echo fifo; exit 1", "max_restarts": 0}, {}, "failed")
    expect(node.json("show", identity)["experiment"]["trials"][0]["tail"].strip() == "fifo", "a fifo is no file of errors")
    entrypoint = "mkdir ../log; echo '{\"message\": \"no log\"}' >$TORCHELASTIC_ERROR_FILE; exit 1"  # the log cannot be read
    identity = lab.submit(node, {"entrypoint": entrypoint, "max_restarts": 0})
    wait_over(mesh, identity, 30, state="failed")
    tail = node.json("show", identity)["experiment"]["trials"][0]["tail"]
    expect(tail.strip() == "no log", f"the message beside an unreadable log: {tail}")


ECHO = """import json, os, pathlib, sys, time
mark, form = pathlib.Path(sys.argv[1]), sys.argv[2]
rank = int(os.environ["RANK"])
text, at = [("RuntimeError: the other rank is gone", 1700000002), ("ValueError: bad batch", 1700000001)][rank]
stack = "Traceback (most recent call last):\\n  File 's.py', line 7, in step\\n    loss(batch)\\n" + text + "\\n"
whole = {"message": {"message": text, "extraInfo": {"py_callstack": stack, "timestamp": str(at)}}}
error = whole if form == "map" else {"message": text, "timestamp": at}
with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
    json.dump(error, file)
def is_there(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False
if rank == 1:
    for i in range(1, 601):
        print("line", i, "of what rank 1 had to say before it failed")
    sys.stdout.flush()
    mark.with_suffix(".part").write_text(str(os.getpid()))
    mark.with_suffix(".part").rename(mark)
else:
    print("rank 0 fails since rank 1 has", flush=True)
    while not mark.exists() or is_there(mark.read_text()):
        time.sleep(0.001)
sys.exit(1)
"""


@case(limit_s=90)
def the_rank_that_met_its_error_first_is_shown_as_the_cause(lab):
    """Rank 1 is the cause, and rank 0 the echo of it; the file of errors has both forms that PyTorch writes."""
    mesh = lab.mesh(1, slots="cpu:2")
    node = mesh.nodes[0]
    for form, stack in (("map", ["Traceback (most recent call last):", "  File 's.py', line 7, in step", "    loss(batch)"]), ("text", [])):
        identity, _ = output(lab, node, {"entrypoint": f"exec {PYTHON} s.py {lab.dir}/{form} {form}", "max_restarts": 0,
                                         "resources": {"slots_per_trial": 2}}, {"s.py": ECHO}, "failed")
        trial = node.json("show", identity)["experiment"]["trials"][0]
        lines, head = trial["tail"].splitlines(), ["ValueError: bad batch", *stack]
        expect(lines[:len(head)] == head, f"{form}: not the message and the stack of rank 1 first: {lines[:8]}")
        expect(lines[-1] == "line 600 of what rank 1 had to say before it failed", f"{form}: {lines[-1]}")
        expect("rank 1 ended with status 1" in trial["reason"], f"{form}: the reason is {trial['reason']}")
        shown = node.run("show", identity)
        expect("ValueError: bad batch" in shown and "the other rank is gone" not in shown, f"{form}: {shown}")


def threads_of(lab, slots, wrap):
    mesh = lab.mesh(1, slots=slots, wrap=wrap)
    identity = lab.submit(mesh.nodes[0], {"entrypoint": "echo $OMP_NUM_THREADS"})
    wait_over(mesh, identity, 30)
    return of_rank(mesh.nodes[0], identity, 0).strip()


@case()
def threads_are_as_many_as_the_slot_has_processors(lab):
    """All of the machine's, of an affinity mask's, of a quota's (where cgroup v1 can be written), divided by the slots."""
    count = len(os.sched_getaffinity(0))
    first = str(min(os.sched_getaffinity(0)))
    found = {"all": threads_of(lab, "cpu:1", []), "many slots": threads_of(lab, "cpu:64", []),
             "mask": threads_of(lab, "cpu:1", ["taskset", "-c", first])}
    expect(found == {"all": str(count), "many slots": str(max(1, count // 64)), "mask": "1"}, f"{found} of {count}")
    group = Path("/sys/fs/cgroup/cpu") / f"shoal-e2e-{os.getpid()}"
    try:
        group.mkdir()
        lab.at_end.append(group.rmdir)
        lab.at_end.append(lambda: [(group.parent / "cgroup.procs").write_text(p) for p in (group / "cgroup.procs").read_text().split()])
        (group / "cpu.cfs_quota_us").write_text("50000")
    except OSError:
        return "without a quota: /sys/fs/cgroup/cpu cannot be written"
    quota = threads_of(lab, "cpu:1", ["sh", "-c", f'echo $$ >{group}/cgroup.procs && exec "$@"', "sh"])
    expect(quota == "1", f"with a quota of half a processor: {quota}")


@case()
def conda_activate_works_without_a_login_shell(lab):
    home = lab.dir / "home"
    profile = home / "miniforge3" / "etc" / "profile.d"
    profile.mkdir(parents=True)
    (profile / "conda.sh").write_text('conda() { export CONDA_DEFAULT_ENV="$2"; }\n')
    mesh = lab.mesh(1, slots="cpu:1", wrap=["env", "-u", "CONDA_EXE", f"HOME={home}", "PATH=/usr/bin:/bin"])
    _, text = output(lab, mesh.nodes[0], {"entrypoint": "conda activate work && echo in $CONDA_DEFAULT_ENV"})
    expect(text.strip() == "in work", text)


@case()
def variables_of_the_host_pass_by_two_lists_and_the_owners_choice(lab):
    mesh = lab.mesh(1, slots="cpu:1", options=["--worker-env", "LAB_*", "--worker-env", "GIVEN=a b=c"],
                    wrap=["env", "http_proxy=http://p:3128", "HTTPS_PROXY=http://p:3128", "HF_HOME=/x", "CUDA_HOME=/c",
                          "PYTHONPATH=/p", "XDG_RUNTIME_DIR=/r", "LAB_DATA=/d", "OTHER=1", "SLURM_NTASKS=8", "OMPI_COMM_WORLD_RANK=3",
                          "PMI_RANK=1", "RANK=7", "TORCHELASTIC_RUN_ID=old", "MASTER_PORT=1"])
    node = mesh.nodes[0]
    _, text = output(lab, node, {"entrypoint": "env; shoal-train --help | head -1",
                                 "environment": {"variables": {"PATH": "/opt/x/bin", "OMP_NUM_THREADS": "3", "ROLE_NAME": "mine",
                                                               "GLOO_SOCKET_IFNAME": "mine0"}}})
    found = variables(text)
    for name, value in {"http_proxy": "http://p:3128", "HTTPS_PROXY": "http://p:3128", "HF_HOME": "/x", "CUDA_HOME": "/c",
                        "PYTHONPATH": f"/p:{node.bin}/python", "XDG_RUNTIME_DIR": "/r", "LAB_DATA": "/d", "GIVEN": "a b=c", "RANK": "0",
                        "OMP_NUM_THREADS": "3", "ROLE_NAME": "mine", "GLOO_SOCKET_IFNAME": "mine0"}.items():
        expect(found.get(name) == value, f"{name} is {found.get(name)!r}, not {value!r}")
    for name in ("OTHER", "SLURM_NTASKS", "OMPI_COMM_WORLD_RANK", "PMI_RANK"):
        expect(name not in found, f"{name} has passed")
    expect(found["TORCHELASTIC_RUN_ID"] != "old" and found["MASTER_PORT"] != "1", "variables of another torchrun have passed")
    expect(found["PATH"].startswith("/opt/x/bin:") and "shoal-train" in text.splitlines()[-1], f"shoal-train is not found: {text}")
    refused = subprocess.run([node.bin / "shoald", "--dir", lab.dir / "none", "--worker-env", "SLURM_JOB_ID"], capture_output=True,
                             text=True, timeout=20)
    expect(refused.returncode == 2 and "never passes" in refused.stderr, f"{refused}")


@case()
def hyperparameters_are_variables_a_file_and_placeholders(lab):
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    config = {"entrypoint": "printf '%s|' {{hp.opt.lr}} ${{ hp.name }} \"$SHOAL_HP_NAME\" $SHOAL_HP_OPT__LR; cat $SHOAL_HPARAMS_FILE",
              "hyperparameters": {"opt": {"lr": 0.25}, "name": "it's $HOME; `id`"}}
    _, text = output(lab, node, config)
    expect(text.startswith("0.25|it's $HOME; `id`|it's $HOME; `id`|0.25|"), text)
    expect(json.loads(text.split("|")[-1]) == {"opt": {"lr": 0.25}, "name": "it's $HOME; `id`"}, text)
    for bad, says in [({"entrypoint": "t {{hp.rate}}"}, "no such hyperparameter"),
                      ({"entrypoint": "t", "hyperparameters": {"a": {"b": 1}, "A__B": 2}}, "both give the variable SHOAL_HP_A__B")]:
        try:
            lab.submit(node, bad)
            expect(False, f"{bad} was taken")
        except Refused as refused:
            expect(says in refused.text and len(refused.text.splitlines()) == 1, refused.text)


# ---- two Debian hosts ------------------------------------------------------------------------------------------------


def debian_hosts(lab, slots, names=("alder", "birch")):
    """Hosts in namespaces whose own name means 127.0.1.1, as Debian's installer writes it; torchrun's environment beside it."""
    mesh, wire = lab.wired(list(names), slots=slots)
    for name, node in zip(wire.names[1:], mesh.nodes):
        directory = Path("/etc/netns") / name
        directory.mkdir(parents=True)
        lab.at_end.append(lambda directory=directory: shutil.rmtree(directory))
        (directory / "hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {node.name}\n")
        node.wrap = ["ip", "netns", "exec", name, "unshare", "--uts", "sh", "-c", f'hostname {node.name}; exec "$@"', "sh",
                     "env", "-i", "HOME=/root", "LANG=C.UTF-8", "PATH=/usr/local/bin:/usr/bin:/bin"]
    mesh.start()
    return mesh


def has(python, module):
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0


def debian_torch():
    """The version of Debian's PyTorch as (major, minor); (0, 0): there is none."""
    file = Path("/usr/lib/python3/dist-packages/torch/version.py")
    found = re.match(r"__version__ = '(\d+)\.(\d+)", file.read_text()) if file.exists() else None
    return (int(found[1]), int(found[2])) if found else (0, 0)


LIBUV = ["USE_LIBUV=0"] if debian_torch() >= (2, 4) else []


def under_torchrun(lab, mesh, python, script, per_host, words=("train.py",)):
    """The words, a script of the directory `script` and its options, by torchrun, on the first host: two agents, one for each host of the mesh. The ranks are named in their lines.
    torchrun itself hangs or fails now and then on a loaded machine: up to three tries."""
    for attempt in range(3):
        try:
            return torchrun_once(mesh, python, script, per_host, words, 29411 + attempt)
        except (Broken, TimeoutError) as error:
            lab.note(str(error))
            last = error
    raise last


def torchrun_once(mesh, python, script, per_host, words, port):
    agents, texts = [], []
    for index in range(len(mesh.nodes)):
        command = [python, "-m", "torch.distributed.run", "--nnodes", str(len(mesh.nodes)), "--nproc_per_node", str(per_host),
                   "--rdzv_backend", "c10d", "--rdzv_endpoint", f"127.0.0.1:{port}", "--rdzv_id", "x", "--max_restarts", "5",
                   "--rdzv_conf", f"is_host={index == 0}",  # both agents stand where the endpoint is, and would race for it
                   "-r", "1", "-t", "1", "--log_dir", str(script / "log"),  # Debian's fails without: its Std.NONE is no Std
                   *words]
        agents.append(subprocess.Popen([*mesh.nodes[0].wrap, "PYTHONUNBUFFERED=1", *LIBUV, "bash", "-c", 'exec "$@"', "bash",
                                        *command], cwd=script, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    try:
        for agent in agents:
            text, errors = agent.communicate(timeout=120)
            expect(agent.returncode == 0, f"torchrun ended with {agent.returncode}: {errors[-1500:]}")
            texts.append(text)
    except subprocess.TimeoutExpired:
        for agent in agents:
            agent.kill()
        said = [agent.communicate()[1][-1500:] for agent in agents]
        raise TimeoutError(f"torchrun is not done after 120 s: {said}") from None
    return "\n".join(texts)


def environments(text):
    """{rank: {name: value}} of the lines ENV RANK NAME=VALUE."""
    found = {}
    for rank, name, value in re.findall(r"^(?:\[.*?\]:? ?)?ENV (\d+) (\w+)=(.*)$", text, re.MULTILINE):
        found.setdefault(int(rank), {})[name] = value
    return found


def losses(text):
    return [float(loss) for loss in re.findall(r"LOSS \d+ (\S+)$", text, re.MULTILINE)]


def same_as_torchrun(lab, mesh, python, size):
    """The same script by both: the same losses, and the same environment but for what has a reason."""
    node, per_host = mesh.nodes[0], size // 2
    context = Path(tempfile.mkdtemp(prefix="torchrun-", dir=lab.dir))
    shutil.copy(PROGRAMS / "ddp_losses.py", context / "train.py")
    theirs = under_torchrun(lab, mesh, python, context, per_host)
    identity = lab.submit(node, {"entrypoint": f"{python} train.py", "resources": {"slots_per_trial": size}, "max_restarts": 5},
                          {"train.py": (PROGRAMS / "ddp_losses.py").read_text()})
    final = wait_over(mesh, identity, 150)
    expect(final["trials"][0]["attempt"] == 1, f"it took several attempts: {final['trials']}")
    ours = "\n".join(of_rank(node, identity, rank) for rank in range(size))
    a, b = losses(theirs), losses(ours)
    expect(len(a) == len(b) == 20 and all(abs(x - y) <= 1e-5 for x, y in zip(a, b)), f"losses differ: {a} and {b}")
    expect("False" not in re.findall(r"ELASTIC \d (\w+)", ours), "torch does not see an elastic launch")
    theirs, ours = environments(theirs), environments(ours)
    expect(sorted(theirs) == sorted(ours) == list(range(size)), f"ranks: {sorted(theirs)} and {sorted(ours)}")
    used = set()
    for rank in range(size):
        differing = {name for name in theirs[rank].keys() | ours[rank].keys() if theirs[rank].get(name) != ours[rank].get(name)}
        differing -= ADDRESSES | PATHS | {name for name in differing if name.startswith("SHOAL_")}
        unexplained = {name: (theirs[rank].get(name), ours[rank].get(name)) for name in differing - REASONS.keys()}
        expect(not unexplained, f"rank {rank} of {size}, torchrun's and ours: {unexplained}")
        used |= differing
    used |= {"PYTHONUNBUFFERED"} | ({"USE_LIBUV"} if LIBUV else set())  # given to torchrun, too, for its output and its store
    expect(len(used) <= 8, f"more than eight names differ: {sorted(used)}")
    return ours, identity


@case(limit_s=400, pairs=True)
def the_same_script_gives_the_same_losses_as_under_torchrun(lab):
    """Two Debian hosts, two ranks and four: losses to 1e-5, torchrun's environment; gloo over the interface of the mesh."""
    if not has(PYTHON, "torch.distributed"):
        raise Skip("PyTorch is not installed: tools/setup --torch installs it")
    mesh = debian_hosts(lab, "cpu:2")
    ours, _ = same_as_torchrun(lab, mesh, PYTHON, 4)
    for rank, variables_ in ours.items():
        expect(variables_["GLOO_SOCKET_IFNAME"] == "eth0" and variables_["NCCL_SOCKET_IFNAME"] == "=eth0"
               and variables_["TP_SOCKET_IFNAME"] == "eth0", f"rank {rank}: {variables_}")


@case(limit_s=900, whole=True)
def two_and_four_ranks_are_as_under_torchrun_with_old_and_new_pytorch(lab):
    pythons = [PYTHON] if has(PYTHON, "torch.distributed") else []
    pythons.append(python_with())
    for size in (2, 4):
        mesh = debian_hosts(lab, f"cpu:{size // 2}")
        for python in pythons:
            ours, _ = same_as_torchrun(lab, mesh, python, size)
            expect(all(found["GLOO_SOCKET_IFNAME"] == "eth0" for found in ours.values()), f"{ours}")
            lab.note(f"{python}, {size} ranks: as under torchrun")


@case(limit_s=900, whole=True)
def lightning_and_accelerate_scripts_run_unchanged_on_two_hosts(lab):
    python = python_with("lightning==2.6.6", "accelerate")
    mesh = debian_hosts(lab, "cpu:1")
    node = mesh.nodes[0]
    for script, says in [("lightning_fit.py", "DONE {} of 2, 16 steps"), ("accelerate_losses.py", "DONE {} of 2, 768 samples, loss")]:
        identity = lab.submit(node, {"entrypoint": f"{python} {script}", "resources": {"slots_per_trial": 2}, "max_restarts": 0},
                              {script: (PROGRAMS / script).read_text()})
        final = wait_over(mesh, identity, 200)
        expect(sorted(slot["node_name"] for slot in final["trials"][0]["slots"]) == ["alder", "birch"], f"{final}")
        for rank in range(2):
            text = of_rank(node, identity, rank)
            expect(says.format(rank) in text, f"{script}, rank {rank}: {text[-1500:]}")


@case(limit_s=200, whole=True)
def the_example_runs_between_two_debian_hosts(lab):
    """examples/pytorch-ddp as it is; and a variable of the user stands."""
    if not has(PYTHON, "torch.distributed"):
        raise Skip("PyTorch is not installed: tools/setup --torch installs it")
    mesh = debian_hosts(lab, "cpu:1")
    node = mesh.nodes[0]
    context = node.tree / "ddp"
    shutil.copytree(ROOT / "examples" / "pytorch-ddp", context, ignore=shutil.ignore_patterns("__pycache__"))
    identity = node.run("submit", context / "ddp.yaml").split()[-1]
    wait_over(mesh, identity, 150)
    identity = lab.submit(node, {"entrypoint": "echo $GLOO_SOCKET_IFNAME $NCCL_SOCKET_IFNAME", "resources": {"slots_per_trial": 2},
                                 "environment": {"variables": {"GLOO_SOCKET_IFNAME": "lo"}}})
    wait_over(mesh, identity, 60)
    seen = [of_rank(node, identity, rank).strip() for rank in range(2)]
    expect(seen == ["lo =eth0"] * 2, f"{seen}")
