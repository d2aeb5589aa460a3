"""A search in which a program of the user's decides, on real daemons."""

import json
import os
import shutil
import signal
import subprocess

from lab import case, expect, show, wait_over, wait_until
from mesh import ROOT

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = ("import os, time; x = float(os.environ['SHOAL_HP_X'])\n"
         "for step in range(1, 9):\n"
         "    print(f'::shoal metric validation loss={(x - 0.3) ** 2 + 1 / step:.12g} step={step}', flush=True)\n"
         "    time.sleep(0.3)\n")


def search(program, trials=12, **more):
    return {"name": "own", "entrypoint": ["python3", "-c", STEPS], "metrics_from_output": True,
            "hyperparameters": {"x": {"type": "double", "minval": 0, "maxval": 1}},
            "searcher": {"name": "custom", "entrypoint": program, "metric": "loss", "max_trials": trials, "max_length": 8,
                         "every": 2, "max_concurrent_trials": 3, **more}}


def written(directory, text):
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, "program.py")
    with open(path, "w") as file:
        file.write(text)
    return f"python3 {path}"


def lives(directory):
    """The events of each life of the program."""
    return [open(os.path.join(directory, name)).read().splitlines() for name in sorted(os.listdir(directory))]


def check_lives(directory):
    """Each life has had the events of the longest one, in its order, but for the last event: its answer was recorded nowhere."""
    all_lives = lives(directory)
    longest = max(all_lives, key=len)
    for life in all_lives:
        sure = life[:-1]
        expect(longest[: len(sure)] == sure, f"a life was told of {sure}, another of {longest}")
        expect(len(set(life)) == len(life), f"an event came twice in one life: {life}")
    return longest


@case(limit_s=300)
def a_program_decides_whatever_coordinator_dies(lab):
    """The coordinator's daemon is killed three times, the program once: every life is told of the same events in the same order."""
    mesh = lab.mesh(3, slots="cpu:2")
    events = os.path.join(lab.dir, "events")
    os.makedirs(events)
    identity = lab.submit(mesh.nodes[0], search(f"python3 {HERE}/programs/custom_search.py {events}"))

    def told():
        return max((len(life) for life in lives(events)), default=0)

    wait_until(lambda: told() >= 3, 60, "the first events")
    pid = int(max(os.listdir(events), key=lambda name: os.path.getmtime(os.path.join(events, name))).split("-")[0])
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: len(lives(events)) >= 2, 60, "a second life")
    for _ in range(3):
        seen = told()
        wait_until(lambda seen=seen: told() >= seen + 3, 90, "further events")
        name = show(mesh, identity)["coordinator_name"]
        coordinator = mesh.by_name(name) if name else mesh.nodes[0]
        coordinator.kill_daemon(signal.SIGKILL)
        coordinator.start()
        mesh.wait_alive(3)
    final = wait_over(mesh, identity, 200)
    longest = check_lives(events)
    expect(longest[0] == "start", f"the first event is {longest[0]}")
    states = [trial["state"] for trial in final["trials"]]
    expect(set(states) <= {"completed", "stopped"} and len(states) == 12, f"trials ended as {states}")
    expect("stopped" in states, "no trial was stopped by the program")
    first = [trial["hyperparameters"]["x"] for trial in final["trials"][:6]]
    expect(first == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5], f"the first trials have {first}")
    expect(len(lives(events)) >= 4, f"the program lived {len(lives(events))} times")
    expect("answers event" not in "".join(node.run("events") for node in mesh.nodes), "a replay was answered otherwise")


@case(limit_s=120)
def wrong_programs_are_told_in_a_sentence(lab):
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    head = "import shoal\nclass S(shoal.Searcher):\n    def on_start(self):\n        return "
    programs = {"def f(:\n": "SyntaxError",
                head + "[shoal.Create({'x': 2})]\nS().run()\n": "'x'",
                head + "[shoal.Create({'y': 0.2})]\nS().run()\n": "'y'",
                head + "[shoal.Stop(3)]\nS().run()\n": "has stopped a trial that it has not created",
                head + "[7]\nS().run()\n": "is no action of a search",
                "print('that is all')\n": "has ended before the search was over: that is all"}
    for number, (text, sentence) in enumerate(programs.items()):
        identity = lab.submit(node, search(written(os.path.join(lab.dir, str(number)), text)))
        wait_until(lambda: sentence in node.run("why", f"{identity}/0"), 40, f"'{sentence}' in why")  # noqa: B023
        expect("the program of the search own" in node.run("events"), "no line tells of it")
        node.run("cancel", identity)
        wait_over(mesh, identity, 30, "cancelled")


@case(limit_s=120)
def a_search_ends_when_its_program_has_said_so(lab):
    mesh = lab.mesh(1, slots="cpu:2")
    text = ("import shoal\nclass S(shoal.Searcher):\n"
            "    def on_start(self):\n        return [shoal.Create({'x': 0.25}), shoal.Create({})]\n"
            "    def on_report(self, trial, step, metric):\n        return [shoal.Finish()] if step == 4 else None\nS().run()\n")
    identity = lab.submit(mesh.nodes[0], search(written(os.path.join(lab.dir, "program"), text), trials=5))
    final = wait_over(mesh, identity, 100)
    states = [trial["state"] for trial in final["trials"]]
    expect(states[2:] == ["stopped"] * 3 and set(states[:2]) <= {"completed", "stopped"}, f"trials ended as {states}")
    expect(final["trials"][0]["hyperparameters"]["x"] == 0.25, f"trial 0 has {final['trials'][0]['hyperparameters']}")


@case(limit_s=300, whole=True)
def a_search_whose_program_is_given_up_ends_those_who_wait(lab):
    """The program fails eight times, with a pause of up to a minute before each further start. Pause and resume try anew."""
    mesh = lab.mesh(2, slots="cpu:1")
    alder, birch = mesh.nodes
    mended = lab.dir / "mended"
    text = (f"import os, sys, shoal\nif not os.path.exists({str(mended)!r}):\n    sys.exit('not yet')\n"
            "class S(shoal.Searcher):\n    def on_start(self):\n"
            "        return [shoal.Create({'x': 0.25}), shoal.Finish()]\nS().run()\n")
    (lab.dir / "code").mkdir()
    file = lab.dir / "code" / "search.yaml"
    file.write_text(json.dumps(search(written(lab.dir / "program", text), trials=2)))

    def begin(node, *words):
        return subprocess.Popen([node.bin / "shoal", *words, "--dir", node.dir], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    waiting = [begin(alder, "submit", "--follow", file)]
    wait_until(lambda: alder.json("ls")["experiments"] and birch.json("ls")["experiments"], 30, "the experiment")
    identity = alder.json("ls")["experiments"][0]["id"]
    python = f"import shoal; shoal.Client({str(birch.dir)!r}).experiment({identity!r}).wait()"
    waiting += [begin(alder, "watch", identity), begin(birch, "watch", identity), begin(birch, "wait", identity),
                subprocess.Popen(["python3", "-c", python], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                 env={**os.environ, "PYTHONPATH": str(ROOT / "train/python")})]
    for process in waiting:
        lab.at_end.append(process.kill)
    for process in waiting:
        said = process.communicate(timeout=240)[0]
        expect(process.returncode == 1, f"{process.args} ended with {process.returncode}: {said}")
        expect("goes no further: the program of the search (searcher.entrypoint) has ended with status 1: not yet; "
               "it is not started again after 8 failures" in said, f"{process.args} said: {said}")
    shown = show(mesh, identity)
    expect(shown["halted"] and "not yet" in shown["trouble"] and shown["state"] == "queued", f"it is {shown}")
    mended.touch()
    birch.run("pause", identity)
    wait_until(lambda: all(not node.json("show", identity)["experiment"]["halted"] for node in mesh.nodes), 30, "the pause")
    alder.run("resume", identity)
    final = wait_over(mesh, identity, 60)
    expect([trial["state"] for trial in final["trials"]] == ["completed", "stopped"], f"it ended as {final}")
    expect(final["trouble"] is None, f"there is still trouble: {final['trouble']}")


HEARS = """import os, shoal, sys, time
class S(shoal.Searcher):
    def note(self, *words):
        with open(os.path.join(sys.argv[1], str(os.getpid())), "a") as file:
            print(*words, file=file)
    def on_start(self):
        self.note("start")
        return [shoal.Create({"x": 0.1 * i}) for i in range(3)]
    def on_report(self, trial, step, metric):
        found = self.reported(trial, step)
        self.note("report", trial, step, found == {"loss": metric, "twice": 2 * step})
    def on_end(self, trial, how, metric):
        self.note("end", trial, how)
        self.ends.append(trial)
        while len(self.ends) == 3 and not os.path.exists(sys.argv[2]):
            time.sleep(0.1)
    ends = []
S().run()
"""


@case(limit_s=150)
def a_program_is_told_of_the_last_end_though_its_coordinator_dies(lab):
    mesh = lab.mesh(2, slots="cpu:2")
    events, goes_on = os.path.join(lab.dir, "events"), lab.dir / "go"
    os.makedirs(events)
    config = search(f"{written(os.path.join(lab.dir, 'program'), HEARS)} {events} {goes_on}", trials=3)
    config["entrypoint"][2] = STEPS.replace("step={step}", "twice={2 * step} step={step}")
    identity = lab.submit(mesh.nodes[0], config)
    final = wait_over(mesh, identity, 60)
    expect([trial["state"] for trial in final["trials"]] == ["completed"] * 3, f"trials ended as {final}")

    def ends():
        return [sum(line.startswith("end") for line in life) for life in lives(events)]
    wait_until(lambda: ends() == [3], 30, "the last end")
    expect(show(mesh, identity)["state"] == "completed", "it runs on")
    mesh.by_name(show(mesh, identity)["coordinator_name"]).kill_daemon(signal.SIGKILL)
    goes_on.touch()
    wait_until(lambda: ends() == [3, 3], 60, "a successor that hears of it")
    longest = check_lives(events)
    heard = {line for line in longest if line.startswith("end")}
    expect(longest[0] == "start" and heard == {f"end {i} completed" for i in range(3)}, f"it heard {longest}")
    reports = [line for line in longest if line.startswith("report")]
    expect(len(reports) == 12 and all(line.endswith("True") for line in reports), f"it was told of {reports}")


@case(limit_s=120)
def the_example_of_a_search_of_ones_own_runs(lab):
    mesh = lab.mesh(2, slots="cpu:2")
    context = lab.dir / "example"
    shutil.copytree(ROOT / "examples" / "custom-search", context, ignore=shutil.ignore_patterns("__pycache__"))
    identity = mesh.nodes[0].run("submit", context / "search.yaml").split()[-1]
    trials = wait_over(mesh, identity, 100)["trials"]
    states = {trial["state"] for trial in trials}
    expect(len(trials) == 24 and states == {"completed", "stopped"}, f"trials ended as {[t['state'] for t in trials]}")
    best = min(t["metrics"]["validation"]["loss"] for t in trials)
    first = min(t["metrics"]["validation"]["loss"] for t in trials[:8])
    expect(best <= first and all(0.0001 <= t["hyperparameters"]["lr"] <= 1 for t in trials),
           f"the best has {best}, of the first eight {first}")
