"""Bad input: configuration files, programs and data sets that are wrong say so in one sentence and disturb nobody."""

import gzip
import os
import shutil
import socket
import subprocess
from pathlib import Path

from lab import Skip, case, expect, show, wait_over, wait_until
from look import refusal

FASHION = Path("/usr/share/datasets/fashion-mnist")


def config(name, entrypoint, **more):
    return {"name": name, "entrypoint": entrypoint, "searcher": {"name": "single", "metric": "accuracy"}, **more}


def submit_bystander(lab, node):
    """An experiment that runs until `release` is called; whatever else happens, it must not be disturbed."""
    gate = lab.dir / "gate"
    identity = lab.submit(node, config("bystander", f"while [ ! -e {gate} ]; do sleep 0.1; done"))
    return identity, gate.touch


def expect_undisturbed(mesh, identity, release):
    expect(show(mesh, identity)["state"] == "running", "the bystander does not run any more")
    release()
    trial = wait_over(mesh, identity, 30)["trials"][0]
    expect(trial["attempt"] == 1 and trial["restarts"] == 0, f"the bystander was disturbed: {trial}")


@case(limit_s=60)
def a_wrong_configuration_is_refused_with_line_and_key(lab):
    mesh = lab.mesh(1)
    node = mesh.nodes[0]
    bystander, release = submit_bystander(lab, node)
    before = len(node.json("ls")["experiments"])
    good = "name: a\nentrypoint: 'true'\nsearcher: {name: single, metric: loss}\n"
    for text, line, parts in (
            (good + "max_restart: 5\n", 4, ["max_restart", "max_restarts", "allowed"]),
            (good + "resources:\n  slots_per_trial: two\n", 5, ["resources.slots_per_trial", "'two'", "1 ... 256"]),
            (good + "resources:\n  slots_per_trial: [2]\n", 5, ["resources.slots_per_trial", "a list", "1 ... 256"]),
            (good.replace("single", "rando"), 3, ["searcher.name", "'rando'", "single, grid, random"]),
            (good + "max_restarts: 5\nmax_restarts: 6\n", 5, ["max_restarts"]),
            (good + "resources: [\n", 5, ["not valid YAML"]),
            ("name: a\nsearcher: {name: single, metric: loss}\n", None, ["entrypoint"])):
        path = node.tree / "wrong.yaml"
        path.write_text(text)
        said = refusal(node, "submit", path, code=1)
        place = f"wrong.yaml:{line}:" if line else "wrong.yaml"
        expect(place in said and all(part in said for part in parts), f"it lacks {place} or one of {parts}: {said}")
    (node.tree / "wrong.yaml").write_text(good)
    said = refusal(node, "submit", node.tree / "wrong.yaml", "--set", "max_restarts=many", code=1)
    expect("max_restarts" in said and "many" in said, said)
    said = refusal(node, "submit", node.tree / "absent.yaml", code=1)
    expect("absent.yaml" in said and "No such file" in said, said)
    said = refusal(node, "submit", node.tree / "wrong.yaml", "--context", node.tree / "nowhere", code=1)
    expect("nowhere" in said, said)
    (node.tree / "wrong.yaml").write_bytes(b"\x00\xff\xfe" * 1000)
    expect("wrong.yaml" in refusal(node, "submit", node.tree / "wrong.yaml", code=1), "the file is not named")
    for arguments, code in ((["show", "ffffffffffffffff"], 4), (["logs", f"{bystander}/7"], 4), (["show"], 2),
                            (["submit"], 2), (["show", bystander, "--no-such-option"], 2)):
        refusal(node, *arguments, code=code)
    expect(len(node.json("ls")["experiments"]) == before, "something refused is listed")
    expect_undisturbed(mesh, bystander, release)


@case(limit_s=60)
def a_program_that_cannot_run_fails_after_max_restarts_with_its_last_lines(lab):
    mesh = lab.mesh(2)
    node = mesh.nodes[0]
    bystander, release = submit_bystander(lab, node)
    failing = {
        "absent": (config("absent", "./no-such-program --now", max_restarts=1), "no-such-program: ", 127),
        "at-once": (config("at-once", "echo going down; echo because >&2; exit 3", max_restarts=2, retry="any"), "because", 3),
        "no-python-file": (config("no-python-file", "/usr/bin/python3 absent.py", max_restarts=0), "absent.py", 2),
    }
    identities = {name: lab.submit(node, failing[name][0]) for name in failing}
    for name, identity in identities.items():
        wanted, text, status = failing[name]
        trial = wait_over(mesh, identity, 40, "failed")["trials"][0]
        # An attempt whose slot another experiment's coordinator took first has not begun: no program failed.
        attempts = trial.get("attempts", [trial])
        begun = [attempt["state"] for attempt in attempts if attempt["reason"] != "a slot was not confirmed"]
        expect(trial["state"] == "failed" and begun == ["failed"] * (wanted["max_restarts"] + 1), f"{name}: {trial}")
        expect(text in trial["tail"] and f"ended with status {status}" in trial["reason"], f"{name}: {trial}")
        shown = node.run("show", identity)
        expect(text in shown and f"status {status}" in shown, f"{name}: shoal show hides why:\n{shown}")
        expect(identity in refusal(node, "wait", identity, code=1), "shoal wait does not name the experiment")
    refusal(node, "wait", bystander, "--timeout", "1", code=5)
    expect_undisturbed(mesh, bystander, release)


def damaged_copy(lab, name, damage):
    """A data set whose training images `damage` (bytes to bytes) has changed; the other files are whole."""
    directory = lab.dir / name
    directory.mkdir()
    for file in FASHION.iterdir():
        if not file.name.startswith("train-images"):
            os.symlink(file, directory / file.name)
    damage(gzip.decompress((FASHION / "train-images-idx3-ubyte.gz").read_bytes()), directory)
    return directory


@case(limit_s=60)
def damaged_training_data_is_named_with_its_place(lab):
    mesh = lab.mesh(1)
    node = mesh.nodes[0]
    packed = (FASHION / "train-images-idx3-ubyte.gz").read_bytes()
    plain, zipped = "train-images-idx3-ubyte", "train-images-idx3-ubyte.gz"
    flipped = bytearray(packed)
    flipped[5_000_000] ^= 0x40
    damages = {  # name: the damage, what must be said of it
        "magic": (lambda raw, to: (to / plain).write_bytes(b"\x00\x00\x0d\x03" + raw[4:]), "magic number is 0x00000d03"),
        "count": (lambda raw, to: (to / plain).write_bytes(raw[:4] + b"\xff\xff\xff\xff" + raw[8:]),
                  "dimension 1 is 4294967295"),
        "short": (lambda raw, to: (to / plain).write_bytes(raw[:1_000_000]), "the file holds 999984"),
        "header": (lambda raw, to: (to / plain).write_bytes(raw[:7]), "ends after 7 bytes"),
        "cut-gzip": (lambda raw, to: (to / zipped).write_bytes(packed[:3_000_000]), "ends at byte 3000000"),
        "flipped-gzip": (lambda raw, to: (to / zipped).write_bytes(flipped), "damaged near byte"),
        "no-gzip": (lambda raw, to: (to / zipped).write_bytes(b"no gzip at all" * 100), "damaged near byte 2 "),
    }
    identities = {}
    for name, (damage, _) in damages.items():
        directory = damaged_copy(lab, name, damage)
        identities[name] = lab.submit(node, config(name, "shoal-train mlp", max_restarts=0,
                                                   hyperparameters={"data_dir": str(directory), "epochs": 0.1}))
    for name, identity in identities.items():
        trial = wait_over(mesh, identity, 60, "failed")["trials"][0]
        said = trial["tail"] or ""
        file = zipped if "gzip" in name else plain
        expect("ended with status 1" in trial["reason"], f"{name}: it did not end cleanly: {trial}")
        expect(str(lab.dir / name / file) in said, f"{name}: the file is not named: {said}")
        expect(damages[name][1] in said, f"{name}: it does not say {damages[name][1]!r}: {said}")


@case(limit_s=30)
def the_first_commands_of_the_manual_need_no_pauses(lab):
    node = lab.mesh(1, start=False).nodes[0]
    script = "shoal init --name lab && (shoald --listen 127.0.0.1:0 --beacon 0 >/dev/null 2>&1 &) && shoal invite"
    said = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, timeout=20, cwd=node.tree,
                          env={**os.environ, "SHOAL_DIR": str(node.dir), "PATH": f"{node.bin}:{os.environ['PATH']}"})
    expect(said.returncode == 0 and said.stdout.splitlines()[-1].startswith("shoal1-"), f"no token: {said}")


@case(limit_s=60)
def a_node_that_catches_up_does_not_call_unknown_what_it_may_not_have_heard_of(lab):
    """birch comes back and finds nobody: what was submitted meanwhile may be anywhere, for all that it knows."""
    mesh = lab.mesh(["alder", "birch"])
    alder, birch = mesh.nodes
    gone = lab.submit(alder, config("gone", "true"))
    alder.run("delete", "--yes", gone)
    wait_until(lambda: not birch.run("show", gone, check=False) and "was deleted" in refusal(birch, "show", gone, code=4), 20,
               "birch to hear that it was deleted")
    birch.kill_daemon()
    identity = lab.submit(alder, config("meanwhile", "true"))
    invite = alder.json("invite")["invite"]
    alder.kill_daemon()
    birch.start()
    somebody = "f" * 32
    for command, *words in (("show", identity), ("cancel", identity), ("show", "meanwhile"), ("drain", somebody), ("undrain", somebody),
                            ("evict", "--yes", somebody), ("invite", "--revoke", invite)):
        said = refusal(birch, command, *words, code=1)
        expect(words[-1] in said and "catching up" in said, f"shoal {command}: {said}")
    expect("was deleted" in refusal(birch, "show", gone, code=4), "what was deleted may come back, it says")
    alder.start()
    wait_until(lambda: birch.json("show", identity), 30, "birch to hear of it")
    wait_until(lambda: not birch.json("status")["syncing"], 30, "birch to be in step")
    for command, *words in (("show", "f" * 16), ("show", "never"), ("drain", somebody), ("evict", "--yes", somebody),
                            ("invite", "--revoke", "ffff")):
        refusal(birch, command, *words, code=4)


@case(limit_s=60)
def completion_does_not_wait_for_a_daemon_that_does_not_answer(lab):
    program = lab.dir / "shoal"
    program.write_text("#!/bin/sh\n[ $# = 1 ] && exec sleep 3600\necho ID NAME\necho 0123456789abcdef $2\n")
    program.chmod(0o755)
    completion = lab.dir / "completion"
    completion.write_text(subprocess.run([f"{lab.build}/shoal", "completion", "bash"], capture_output=True, text=True, check=True).stdout)
    for words, replies in (("shoal show ''", ""), ("shoal --dir answers show ''", "0123456789abcdef answers")):
        script = f". {completion}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _shoal; echo ${{COMPREPLY[*]}}"
        said = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=40,
                              env={**os.environ, "PATH": f"{lab.dir}:{os.environ['PATH']}"})
        expect((said.returncode, said.stdout.strip(), said.stderr) == (0, replies, ""), f"{words}: {said}")


def loopback_of(name):
    """The loopback address that this name means here, or None."""
    try:
        addresses = [found[4][0] for found in socket.getaddrinfo(name, 1, type=socket.SOCK_STREAM)]
    except OSError:
        return None
    first = next((address for address in addresses if ":" not in address), addresses[0])
    return first if first.startswith("127.") or first == "::1" else None


@case(limit_s=30)
def a_daemon_refuses_what_init_would_refuse(lab):
    mesh = lab.mesh(1, start=False)
    node = mesh.nodes[0]
    node.run("init")
    shoald = [node.bin / "shoald", "--dir", node.dir, "--beacon", "0", "--listen", "127.0.0.1:0", "--slots", "none"]
    for option, value, part in (
            ("--name", "", "''"), ("--name", "a b", "'a b'"), ("--name", "n" * 64, "1 to 63"), ("--name", b"\xff\x1b", "--name"),
            ("--advertise", "", "''"), ("--advertise", "*", "'*'"), ("--advertise", "h" * 200, "'hhh"), ("--peer", "*:7410", '"*:7410"'),
            ("--peer", "h1", '"h1"'),
            ("--advertise", "1.2.3.4:5", "without a port"), ("--advertise", "0.0.0.0", "'0.0.0.0'"),
            ("--advertise", "::ffff:0.0.0.0", "'::ffff:0.0.0.0'"), ("--peer", "0.0.0.0:7410", "every address"),
            ("--slots", "cpu:-1", "cpu:N"), ("--listen", "foo", "foo")):
        said = subprocess.run([*shoald, option, value], capture_output=True, timeout=20)
        error = said.stderr.decode(errors="replace")
        expect(said.returncode == 2 and part in error and len(error.splitlines()) == 1, f"{option} {value!r}: {said}")
    for name in (socket.gethostname(), "ip6-loopback"):  # Debian's /etc/hosts calls the machine itself 127.0.1.1
        if name != "localhost" and loopback_of(name) is not None:
            said = subprocess.run([*shoald, "--advertise", name], capture_output=True, text=True, timeout=20)
            expect(said.returncode == 2 and f"--advertise {name}" in said.stderr and loopback_of(name) in said.stderr, f"{name}: {said}")
    for option, value in (("--advertise", "not a host!!"), ("--peer", "not a host!!:7410")):
        said = subprocess.run([*shoald, option, value], capture_output=True, timeout=20, text=True)
        expect(said.returncode == 1 and 'The host "not a host!!" was not found: ' in said.stderr, f"{option} {value!r}: {said}")
    node.options = ["--advertise", "localhost"]
    node.start()
    expect(node.json("status")["address"].startswith("127.0.0.1:"), "a name is told to others as a name")


@case(limit_s=30)
def lost_output_and_what_is_not_there_are_errors_that_say_so(lab):
    mesh = lab.mesh(1)
    node = mesh.nodes[0]
    with open("/dev/full", "w") as full:
        for words in (["--help"], ["--version"], ["help", "show"], ["status"]):
            said = subprocess.run([node.bin / "shoal", *words, "--dir", node.dir], stdout=full, stderr=subprocess.PIPE, text=True,
                                  timeout=20)
            expect(said.returncode == 1 and "standard output" in said.stderr, f"shoal {words[0]} into a full disk: {said}")
    identity = lab.submit(node, config("one", "true"))
    for words in (["logs", f"{identity}/9"], ["metrics", f"{identity}/9"], ["checkpoint", "verify", f"{identity}/9"],
                  ["checkpoint", "get", f"{identity}/9", "out"]):
        said = refusal(node, *words, code=4)
        expect("There is no trial 9: the experiment has only trial 0" in said, said)
    wait_over(mesh, identity, 30)
    expect("has no checkpoint" in refusal(node, "checkpoint", "verify", f"{identity}/0", code=4), "a trial without a checkpoint")


def with_closed(closed, *command, **options):
    """Runs a command whose standard descriptors `closed` are not open at all, as `<&-` and `>&-` do it in a shell."""
    signs = " ".join(f"{fd}{'<' if fd == 0 else '>'}&-" for fd in closed)
    return subprocess.run(["/bin/sh", "-c", f'exec "$@" {signs}', "sh", *map(str, command)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=20, **options)


@case(limit_s=30)
def nothing_is_written_into_the_data_directory_by_who_has_no_standard_descriptors(lab):
    node = lab.mesh(1, start=False).nodes[0]
    shoal, shoald = [node.bin / "shoal", "init", "--dir", node.dir], [node.bin / "shoald", "--dir", node.dir]
    for closed in ((0, 1, 2), (0,), (0, 1), (0, 1, 2)):  # the first makes the mesh, the others are refused
        with_closed(closed, *shoal)
    node.start()
    listed = with_closed((1,), node.bin / "shoal", "status", "--json", "--dir", node.dir)
    expect(listed.returncode == 1 and "standard output" in listed.stderr, f"lost output is no failure: {listed}")
    node.kill_daemon()
    daemon = subprocess.Popen(["/bin/sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *map(str, shoald), "--listen", "127.0.0.1:0",
                               "--beacon", "0"], start_new_session=True)
    try:
        wait_until(lambda: node.json("status")["nodes_alive"] == 1, 20, "a daemon without standard descriptors to answer")
        for fd in range(3):
            open_there = os.readlink(f"/proc/{daemon.pid}/fd/{fd}")
            expect(open_there == "/dev/null", f"descriptor {fd} of the daemon is {open_there}")
        expect((node.dir / "lock").read_text().strip() == str(daemon.pid), "the lock's file has more than the daemon's id")
    finally:
        daemon.kill()
        daemon.wait()
    node.start()


@case(limit_s=30)
def a_relative_data_directory_is_as_good_as_another(lab):
    """The daemon starts programs in other directories than its own."""
    bare = lab.mesh(1, start=False, slots="cpu:1")
    node = bare.nodes[0]
    node.dir.parent.mkdir(parents=True, exist_ok=True)
    place = {"cwd": node.dir.parent, "env": {**os.environ, "SHOAL_DIR": "data"}}
    made = subprocess.run([node.bin / "shoal", "init"], capture_output=True, text=True, timeout=20, **place)
    expect(made.returncode == 0, f"shoal init: {made}")
    with open(node.log, "ab") as log:
        node.daemon = subprocess.Popen([node.bin / "shoald", "--listen", "127.0.0.1:0", "--slots", "cpu:1", "--beacon", "0"],
                                       stdout=log, stderr=log, start_new_session=True, **place)
    wait_until(lambda: node.json("status")["nodes_alive"] == 1, 20, "the daemon to answer")
    identity = lab.submit(node, config("where", 'test "$SHOAL_SOCKET" = "$(realpath "$SHOAL_SOCKET")"', max_restarts=0))
    wait_over(bare, identity, 20)


@case(limit_s=30)
def a_data_directory_has_one_daemon_and_is_local(lab):
    mesh = lab.mesh(1)
    node = mesh.nodes[0]
    second = subprocess.run([node.bin / "shoald", "--dir", node.dir, "--listen", "127.0.0.1:0", "--beacon", "0"],
                            capture_output=True, text=True, timeout=20)
    expect(second.returncode == 1 and len(second.stderr.splitlines()) == 1, f"the second daemon: {second}")
    expect(str(node.dir) in second.stderr and "daemon" in second.stderr, f"it does not say why: {second.stderr}")
    expect(node.json("status")["nodes_alive"] == 1, "the first daemon is disturbed")
    empty = lab.dir / "empty"
    homeless = subprocess.run([node.bin / "shoald", "--dir", empty], capture_output=True, text=True, timeout=20)
    expect(homeless.returncode == 1 and "shoal init" in homeless.stderr and len(homeless.stderr.splitlines()) == 1,
           f"a directory without a mesh: {homeless}")
    refusal(node, "init", code=1)  # it belongs to a mesh already
    environment = {**os.environ, "LD_PRELOAD": f"{lab.build}/libfake_nfs.so", "ASAN_OPTIONS": "verify_asan_link_order=0"}
    for command in ([node.bin / "shoal", "init", "--dir", empty], [node.bin / "shoald", "--dir", node.dir]):
        on_nfs = subprocess.run(command, capture_output=True, text=True, timeout=20, env=environment)
        expect(on_nfs.returncode == 1 and "(NFS)" in on_nfs.stderr and "--dir" in on_nfs.stderr, f"on NFS: {on_nfs}")
    deep = lab.dir / ("d" * (96 - len(str(lab.dir)) - 1))  # one byte more than fits
    for command in ([node.bin / "shoal", "init", "--dir", deep], [node.bin / "shoald", "--dir", deep]):
        long = subprocess.run(command, capture_output=True, text=True, timeout=20)
        expect(long.returncode == 2 and "at most 95" in long.stderr and len(long.stderr.splitlines()) == 1, f"a long path: {long}")
    expect(not deep.exists(), "what is refused is there all the same")
    node.kill_daemon()
    (node.dir / "key").rename(node.dir / "mislaid")
    keyless = [subprocess.run([node.bin / program, *words, "--dir", node.dir], capture_output=True, text=True, timeout=20)
               for program, *words in (("shoald",), ("shoal", "init"))]
    expect(all(said.returncode == 1 and f"The key {node.dir}/key is gone" in said.stderr and len(said.stderr.splitlines()) == 1
               for said in keyless), f"without a key: {keyless}")
    shutil.rmtree(empty, ignore_errors=True)
    gone = subprocess.run([node.bin / "shoal", "status", "--dir", empty], capture_output=True, text=True, timeout=20)
    expect(gone.returncode == 3 and len(gone.stderr.splitlines()) == 1, f"no daemon there: {gone}")


@case(limit_s=30)
def another_account_is_told_whose_the_node_is_not(lab):
    if os.geteuid() != 0:
        raise Skip("only root can run a program as another account")
    node = lab.mesh(1).nodes[0]
    nobody = 65534
    done = subprocess.run([node.bin / "shoal", "ls", "--dir", node.dir], capture_output=True, text=True, timeout=20, user=nobody, group=nobody,
                          extra_groups=[], check=False)
    expect(done.returncode == 3 and len(done.stderr.splitlines()) == 1, f"{done}")
    expect("is of another account" in done.stderr and "shoal join TOKEN" in done.stderr, f"{done}")
