"""The HTTP door: every route, the rights of tokens and sessions, streams that go on, and the command line's documents."""

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

from door import DOOR, Door, log_in, new_token, python_with
from lab import case, expect, show, wait_over, wait_until
from look import events_of

SPACE = {"hidden": {"type": "categorical", "vals": [8, 16, 24]}, "epochs": 1}
FINISHED = {"name": "finished", "entrypoint": "shoal-train mlp && echo left > $SHOAL_OUTPUT_DIR/left.txt", "hyperparameters": SPACE,
            "searcher": {"name": "random", "metric": "accuracy", "smaller_is_better": False, "max_trials": 1}}
RUNNING = {"name": "running", "entrypoint": "echo begun; exec sleep 600",
           "searcher": {"name": "asha", "metric": "loss", "max_trials": 2, "max_length": 4, "num_rungs": 2, "divisor": 2},
           "hyperparameters": SPACE}
WAITING = {"name": "waiting", "entrypoint": "sleep 600", "searcher": {"name": "single", "metric": "loss"},
           "resources": {"slots_per_trial": 2, "min_slots": 1, "max_slots": 2}}


def with_work(lab, slots="cpu:2"):
    """A node with a door, an experiment that is over and one that runs."""
    node = lab.mesh(1, slots=slots, options=DOOR).nodes[0]
    finished = lab.submit(node, FINISHED)
    wait_over(lab.meshes[0], finished, 60)
    wait_until(lambda: node.run("output", "ls", f"{finished}/0"), 20, "the files that it left")
    running = lab.submit(node, RUNNING)
    wait_until(lambda: show(lab.meshes[0], running)["trials"][0]["state"] == "running", 20, "a trial to run")
    return node, Door(node), finished, running


def operations(door):
    """(method, path with its {NAME}s, what the document says of it) of every operation."""
    document = door.get("/api/v1/openapi.json", token=None).json()
    return [(method.upper(), path.removeprefix("/api/v1"), operation)
            for path, methods in document["paths"].items() for method, operation in methods.items()]


@case(limit_s=120)
def every_route_answers_about_finished_and_running_work(lab):
    node, door, finished, running = with_work(lab)
    node.run("resume", running, check=False)
    invite = re.fullmatch(r"[0-9a-f]{16}", door.post("/api/v1/invites", {"expires_s": 600}).json()["invite"])[0]
    token = door.post("/api/v1/tokens", {"name": "gone soon", "read_only": True, "expires_s": 60}).json()
    expect(re.fullmatch(r"shoal_[0-9a-f]{64}", token["token"]) and re.fullmatch(r"[0-9a-f]{16}", token["token_id"]), f"the token is {token}")
    submitted = door.post("/api/v1/experiments", {"config": json.dumps(WAITING)})
    expect(submitted.status == 200, f"submit: {submitted}")
    waiting = submitted.json()["experiment"]
    step = door.document(f"/experiments/{finished}/trials/0/checkpoints")["checkpoints"][0]["step"]
    own = door.document("/status")["node"]["id"]
    left = f"/experiments/{finished}/trials/0"
    asked = set()

    def ask(method, path, operation, body=None):
        def sent():
            return door.ask(method, f"/api/v1{path}", body={} if method == "POST" and body is None else body)

        answer = sent()
        if answer.status == 409 and path.endswith("/retry"):  # the trial that was just stopped is on its way out
            answer = wait_until(lambda: (again := sent()).status != 409 and again, 20, "a stopped trial to be over")
        expect(answer.status == 200, f"{method} {path}: {answer}")
        expect(answer.fields["X-Content-Type-Options"] == "nosniff" and "sandbox" in answer.fields["Content-Security-Policy"]
               and answer.fields["Cache-Control"] == "no-store", f"{method} {path} has the fields {answer.fields}")
        if answer.fields["Content-Type"] == "application/json":
            answer.json()
        else:
            expect("/file?" not in path or "/outputs/" not in path or (answer.body, answer.fields["Content-Type"]) == (b"left\n", "text/plain; charset=utf-8"), f"{path}: {answer}")
            expect(answer.fields["Content-Disposition"] == "attachment" and len(answer.body) > 0, f"{path} is {answer.fields}")
        asked.add((method, operation))

    def operation_of(method, path):
        for wanted, pattern, _ in known:
            if wanted == method and re.fullmatch(re.sub(r"\{[a-z]+\}", "[^/]+", pattern), path):
                return pattern
        raise AssertionError(f"the document has no {method} {path}")

    known = sorted(operations(door), key=lambda operation: operation[1].count("{"))
    log_in(door)
    session = door.document("/sessions")["sessions"][0]["id"]
    values = {"node": own, "invite": invite, "session": session, "token": token["token_id"], "trial": "0", "step": step, "number": "0", "name": "API_KEY", "webhook": "0" * 16}
    values["version"] = "1"
    ask("POST", "/models", "/models", {"name": "API_KEY"})
    ask("POST", "/models/API_KEY/versions", "/models/{name}/versions", {"experiment": finished, "trial": 0})
    for method, pattern, _ in known:
        if method == "GET":
            for experiment in (finished, running):
                path = pattern.format(experiment=experiment, **values)
                if path.endswith("/trace"):
                    continue  # of a program that is connected: case_profile.py
                if path.endswith("/file"):
                    path += "?path=output/left.txt" if "/outputs/" in path else "?path=left.txt"
                if "rungs" not in path if experiment == finished else not re.search("/checkpoints/|/outputs|platform|/file[?]", path):
                    ask(method, path, pattern)
    for method, path, body in (
            ("POST", f"/experiments/{running}/label", {"label": "lr", "value": "low"}),
            ("POST", f"/experiments/{running}/describe", {"value": "told by HTTP"}),
            ("POST", f"/experiments/{running}/trials/1/describe", {"value": "told by HTTP"}),
            ("POST", f"/experiments/{running}/priority", {"priority": 7}),
            ("POST", f"/experiments/{running}/max_trials", {"max_trials": 3}),
            ("POST", f"/experiments/{waiting}/max_slots", {"max_slots": 3}),
            ("POST", f"/experiments/{running}/pause", None), ("POST", f"/experiments/{running}/resume", None),
            ("POST", f"/experiments/{running}/trials/1/stop", None), ("POST", f"/experiments/{running}/trials/1/retry", None),
            ("POST", f"/experiments/{finished}/archive", None), ("POST", f"/experiments/{finished}/pin", None),
            ("POST", f"/experiments/{finished}/pin", {"remove": True}), ("POST", f"/experiments/{running}/cancel", None),
            ("POST", "/slots/withhold", {"slots": [1], "for_s": 60}), ("POST", "/slots/return", {"slots": [1]}),
            ("POST", "/owner/policy", {"hours": "9-18 mon-fri", "load_percent": 90}), ("POST", "/owner/policy", {}),
            ("POST", f"/nodes/{own}/withhold", {"slots": [1]}), ("POST", f"/nodes/{own}/return", {"slots": [1]}),
            ("POST", f"/nodes/{own}/drain", None), ("POST", f"/nodes/{own}/undrain", None),
            ("POST", "/models/API_KEY/alias", {"key": "best", "version": 1}), ("POST", "/models/API_KEY/tag", {"key": "a", "value": "b"}),
            ("POST", "/models/API_KEY/describe", {"value": "told by HTTP", "version": 1}),
            ("DELETE", "/models/API_KEY/versions/1", None), ("DELETE", "/models/API_KEY", None),
            ("POST", "/secrets", {"name": "API_KEY", "value": "v"}), ("DELETE", "/secrets/API_KEY", None),
            ("POST", "/webhooks/hosts", {"host": "receiver"}),
            ("POST", "/tokens", {"name": "another"}), ("POST", "/invites", {"expires_s": 60}),
            ("POST", "/experiments", {"config": json.dumps(RUNNING), "overrides": ["name=again", "searcher.max_trials=1"]}),
            ("DELETE", f"/sessions/{session}", None),
            ("DELETE", f"/invites/{invite}", None), ("DELETE", f"/tokens/{token['token_id']}", None),
            ("DELETE", f"/experiments/{finished}", None)):
        ask(method, path, operation_of(method, path), body)
    expect(left not in str(door.get("/api/v1/experiments").body), "a deleted experiment is listed")
    hook = door.post("/api/v1/webhooks", {"url": "http://127.0.0.1:9/", "on": ["failed"]}).json()["webhook"]
    asked.add(("POST", "/webhooks"))
    ask("POST", f"/webhooks/{hook}/test", "/webhooks/{webhook}/test")
    ask("DELETE", f"/webhooks/{hook}", "/webhooks/{webhook}")
    missed = {(method, pattern) for method, pattern, _ in known} - asked
    expect(missed == {("POST", "/nodes/{node}/evict"), ("POST", "/leave"), ("DELETE", "/session"),
                      ("GET", "/experiments/{experiment}/trials/{trial}/trace")}, f"not asked: {missed}")
    own_leave = door.post("/api/v1/leave", {})
    expect(own_leave.status == 200, f"leave: {own_leave}")
    return f"{len(asked) + 1} operations"


@case(limit_s=90)
def without_a_token_nothing_is_told_and_a_read_only_one_changes_nothing(lab):
    node = lab.mesh(1, slots="cpu:1", options=DOOR).nodes[0]
    door = Door(node)
    reader = new_token(node, "reader", "--read-only")
    before = node.json("status")["refused"]["tokens"]
    values = {"experiment": "a1b2c3d4e5f60718", "node": "0" * 32, "invite": "0" * 16, "session": "0" * 16, "token": "0" * 16,
              "trial": 0, "step": 1, "number": 0, "version": 1, "name": "API_KEY", "webhook": "0" * 16}
    bodies = {"label": {"label": "x"}, "describe": {"value": "x"}, "priority": {"priority": 1}, "max_trials": {"max_trials": 1},
              "max_slots": {"max_slots": 1}, "experiments": {"config": "name: x"}, "tokens": {"name": "x"}, "secrets": {"name": "X", "value": "x"}, "webhooks": {"url": "http://x", "on": ["failed"]},
              "hosts": {"host": "x"}, "models": {"name": "x"}, "versions": {"experiment": "a1b2c3d4e5f60718", "trial": 0}, "alias": {"key": "x"},
              "tag": {"key": "x"}}
    wrong = 0
    for method, pattern, operation in operations(door):
        path = "/api/v1" + pattern.format(**values) + ("?path=x" if pattern.endswith("/file") else "")
        body = bodies.get(pattern.rsplit("/", 1)[1], {}) if method == "POST" else None
        for token in (None, "shoal_" + "0" * 64, "nonsense"):
            answer = door.ask(method, path, body=body, token=token)
            expect(answer.status == 401 and answer.json()["code"] == 6, f"{method} {path} with {token}: {answer}")
            expect(answer.fields["WWW-Authenticate"] == 'Bearer realm="shoal"', f"{answer.fields}")
            expect(answer.fields["Content-Type"] == "application/problem+json" and answer.json()["status"] == 401, f"{answer}")
            wrong += token is not None
        answer = door.ask(method, path, body=body, token=reader)
        if method == "GET":
            expect(answer.status in (200, 404, 409), f"{method} {path} for a reader: {answer}")
        elif pattern == "/session":
            expect(answer.status == 409 and "carries no session" in answer.json()["detail"], f"{method} {path} for a reader: {answer}")
        else:
            expect(answer.status == 403 and answer.json()["code"] == 7, f"{method} {path} for a reader: {answer}")
    expect(node.json("status")["refused"]["tokens"] >= before + wrong, f"not all wrong tokens are counted: {node.json('status')['refused']}")
    expect(door.get("/metrics", token=None).status == 401 and door.get("/metrics", token=reader).status == 200, "/metrics")
    expect(door.get("/healthz", token=None).body == b"OK\n" and door.get("/", token=None).status == 200, "what needs no token")
    basic = door.get("/api/v1/status", token=None, Authorization="Basic " + base64.b64encode(f"any:{reader}".encode()).decode())
    expect(basic.status == 200, f"a token as the password: {basic}")
    expect(door.get("/api/v1/nothing").status == 404 and door.ask("PUT", "/api/v1/experiments").status == 405, "paths and methods")
    expect(door.ask("PUT", "/api/v1/experiments").fields["Allow"] == "GET, HEAD, POST", "the field Allow")
    for path, body, part in (("/api/v1/status?x=1", None, "There is no argument x"), ("/api/v1/events?from=x", None, "whole number"),
                             ("/api/v1/experiments/zz", None, "16 hexadecimal digits")):
        answer = door.get(path)
        expect(answer.status == 400 and answer.json()["code"] == 2 and part in answer.json()["detail"], f"{path}: {answer}")
    answer = door.post("/api/v1/tokens", "[1]", Content_Type="application/json")
    expect(answer.status == 400 and answer.json()["detail"] == "The body is no JSON object.", f"{answer}")
    answer = door.post("/api/v1/tokens", {"name": "x" * (1 << 20)})
    expect(answer.status == 413, f"a body of more than 1 MiB: {answer}")
    head = door.ask("HEAD", "/api/v1/status")
    expect(head.status == 200 and head.body == b"" and int(head.fields["Content-Length"]) > 100, f"HEAD: {head}")


@case(limit_s=60)
def a_token_of_one_node_opens_the_other_and_its_end_arrives_too(lab):
    mesh = lab.mesh(2, slots="cpu:1", options=DOOR)
    alder, birch = mesh.nodes
    made = alder.json("token", "create", "--name", "both")
    there = Door(birch, made["token"])
    wait_until(lambda: there.get("/api/v1/status").status == 200, 5, "birch to take alder's token")
    rows = {row["id"]: row for row in there.document("/tokens")["tokens"]}
    expect(rows[made["token_id"]]["name"] == "both" and rows[made["token_id"]]["state"] == "good", f"the tokens are {rows}")
    expect(birch.run("token", "revoke", made["token_id"][:6]).startswith(made["token_id"]), "the id is told")
    here = Door(alder, made["token"])
    wait_until(lambda: here.get("/api/v1/status").status == 401, 5, "alder to hear of the end")
    expect(there.get("/api/v1/status").status == 401, "birch itself")
    mesh.nodes[0].kill_daemon()
    alder.start()
    expect(Door(alder, made["token"]).get("/api/v1/status").status == 401, "a new daemon has forgotten the end")
    short = new_token(alder, "short", "--expires", "10s")
    expect(Door(alder, short).get("/api/v1/status").status == 200, "a short token")
    wait_until(lambda: Door(alder, short).get("/api/v1/status").status == 401, 20, "a token to end with its time")


@case(limit_s=60)
def a_link_opens_one_session_and_only_its_own_pages_change_something(lab):
    mesh = lab.mesh(2, slots="cpu:1", options=DOOR)
    node, other = mesh.nodes
    door = Door(node)
    url = node.json("open")["url"]
    path = url[url.index("/login"):]
    expect(door.ask("HEAD", path, token=None).status == 404, "a look at a link does not use it up")
    answer = door.get(path, token=None)
    cookie = answer.fields["Set-Cookie"]
    expect(answer.status == 303 and all(part in cookie for part in ("HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=604800")), f"{cookie}")
    expect("Domain" not in cookie and node.json("status")["node"]["id"][:8] in cookie, f"{cookie}")
    expect(door.get(path, token=None).status == 401, "a link works twice")
    expect(door.get("/login?code=" + "0" * 32, token=None).status == 401 and door.get("/login", token=None).status == 400, "no link")
    cookie = cookie.split(";")[0]
    as_page = {"token": None, "Cookie": f"theme=dark; {cookie}"}
    told = door.get("/api/v1/session", **as_page).json()
    expect(told["is_session"] and not told["read_only"] and re.fullmatch("[0-9a-f]{32}", told["csrf"]), f"the session is {told}")
    expect(door.get("/api/v1/status", **as_page).status == 200, "a page reads")
    here = f"http://{door.host}:{door.port}"
    good = {**as_page, "X_Shoal_CSRF": told["csrf"], "Origin": here, "Sec_Fetch_Site": "same-origin"}

    def change(body=None, **fields):
        fields = {**good, **fields}
        return door.post("/api/v1/invites", {"expires_s": 60} if body is None else body,
                         **{name: value for name, value in fields.items() if value is not None or name == "token"}).status
    expect(change() == 200 and change(Origin=None, Sec_Fetch_Site=None) == 200 and change(Sec_Fetch_Site="none") == 200, "its own page")
    for name, values in {"X_Shoal_CSRF": (None, "", "0" * 32, told["csrf"][:-1], told["csrf"] + "0"),
                         "Origin": ("null", "http://evil.example", "https" + here[4:], here + "1", "http://127.0.0.1", here + "/"),
                         "Sec_Fetch_Site": ("cross-site", "same-site", ""),
                         "Host": ("evil.example", "evil.example:7412", ""),
                         "Cookie": (cookie[:-1] + ("0" if cookie[-1] != "0" else "1"),)}.items():
        for value in values:
            status = change(**{name: value})
            expect(status == (401 if name == "Cookie" and status != 403 else 403), f"{name}: {value!r} gives {status}")
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonx"):
        expect(change('{"expires_s": 60}', Content_Type=kind) == 415, f"a body of type {kind}")
    expect(Door(other).get("/api/v1/status", **as_page).status == 401, "a session is its node's only")
    reader = log_in(door, "--read-only")
    csrf = door.get("/api/v1/session", token=None, Cookie=reader).json()["csrf"]
    expect(change(Cookie=reader, X_Shoal_CSRF=csrf) == 403, "a session that reads only")
    own = next(row for row in door.get("/api/v1/sessions", **as_page).json()["sessions"] if row["is_own"])
    expect(own["expires_s"] - own["created_s"] == 604800 and len(node.json("session", "ls")["sessions"]) == 2, f"the sessions: {own}")
    node.kill_daemon()
    node.start()
    door = Door(node)
    good["Origin"] = f"http://{door.host}:{door.port}"
    expect(door.get("/api/v1/status", **as_page).status == 200, "a session ends with the daemon")
    over = door.ask("DELETE", "/api/v1/session", **good)
    expect(over.status == 200 and over.json()["ended"] == 1 and "Max-Age=0" in over.fields["Set-Cookie"], f"{over}")
    expect(door.get("/api/v1/status", **as_page).status == 401, "a session that its own page has ended")
    expect(door.ask("DELETE", "/api/v1/session").status == 409, "a token is no session")
    expect(node.run("session", "revoke", node.json("session", "ls")["sessions"][0]["id"][:6]).strip() == "1 session ended", "the other one")
    expect(door.get("/api/v1/status", token=None, Cookie=reader).status == 401, "a session that was ended elsewhere")
    later = log_in(door)
    expect(node.run("session", "revoke", "--all").strip() == "1 session ended", "all")
    node.kill_daemon()
    node.start()
    door = Door(node)
    for ended in (cookie, reader, later):
        expect(door.get("/api/v1/status", token=None, Cookie=ended).status == 401, "a session that was ended comes back with the daemon")
    wait_until(lambda: any("with a token, session or code that is not good" in text for text in events_of(node)), 5, "a line about them")
    link = node.json("open", "--read-only")["url"]
    expect("Access-Control-Allow-Origin" not in door.get("/api/v1/status", Origin="http://evil.example").fields, "CORS")
    codes = sum(f"{link}" in text for text in events_of(node))
    expect(codes == 0, "a code stands in an event line")


@case(limit_s=60)
def the_documents_are_those_of_the_command_line(lab):
    node, door, finished, running = with_work(lab)
    node.run("cancel", running)
    wait_over(lab.meshes[0], running, 30, "cancelled")
    trial = f"/experiments/{finished}/trials/0"
    pairs = [("/nodes", ["nodes"]), ("/slots", ["slots"]), ("/experiments", ["ls"]), (f"/experiments/{finished}?curves=true", ["show", finished]),
             (trial, ["show", f"{finished}/0"]), (f"/experiments/{running}/rungs", ["rungs", running]),
             (f"/experiments/{finished}/config", ["config", finished]), ("/tokens", ["token", "ls"]), ("/invites", ["invite", "--list"]),
             (f"/experiments/{finished}/checkpoints", ["checkpoint", "ls", finished]), (f"{trial}/outputs", ["output", "ls", f"{finished}/0"])]
    compared = 0
    for path, words in pairs:
        answer = door.get(f"/api/v1{path}")
        said = node.run(*words, "--json", check=False)
        if answer.status == 200 and said.strip().startswith("{") and len(said.strip().splitlines()) == 1:
            expect(answer.json() == json.loads(said), f"{path} is {answer.json()} and shoal {' '.join(words)} {said}")
            compared += 1
        else:
            lab.note(f"{path}: {answer}; shoal {' '.join(words)}: {said[:200]}")
    points = node.json_lines("metrics", finished)
    expect(door.document(f"/experiments/{finished}/metrics")["points"] == points, "the points differ")
    written = node.run("logs", f"{finished}/0")
    logs = b"".join(bytes.fromhex(piece.get("bytes", "")) for piece in door.document(f"{trial}/logs")["pieces"]).decode()
    plain = door.get(f"/api/v1{trial}/logs", Accept="text/plain").body.decode()
    expect(logs == plain == written, f"the log is {logs!r}, as text {plain!r}, and not {written!r}")
    expect(door.get(f"/api/v1/experiments/{finished}/configuration").body.decode().startswith(json.dumps(FINISHED, indent=1)[:100]), "the file")
    expect(compared >= 8, f"only {compared} documents were compared: {lab.notes}")
    return f"{compared} documents"


@case(limit_s=90)
def a_stream_of_events_goes_on_where_it_was_cut(lab):
    node = lab.mesh(1, slots="cpu:1", options=DOOR).nodes[0]
    door = Door(node)
    stop = threading.Event()

    def chat():  # each makes a line
        while not stop.is_set():
            node.run("withhold", "0")
            node.run("withhold", "0", "--return", check=False)

    talk = threading.Thread(target=chat)
    talk.start()
    seen, last = [], None
    try:
        for _ in range(6):
            fields = {} if last is None else {"Last_Event_ID": str(last)}
            stream = door.stream("/events?follow=true&from=1", **fields)
            began = len(seen)
            for identity, event, data in stream:
                if not data["events"]:
                    continue
                expect(event == "message" and identity == data["events"][-1]["seq"], f"{identity} {event} {data}")
                seen += [line["seq"] for line in data["events"]]
                last = identity
                if len(seen) >= began + 3:
                    break
            stream.close()
        ahead = door.stream("/events?follow=true", Last_Event_ID="999999999999")  # of another daemon, which had this port
        expect(next(ahead)[1] == "reset", "it is not told that it has other events")
        expect(next(data for _, _, data in ahead if data["events"])["events"][0]["seq"] > last, "it gets what comes")
        ahead.close()
    finally:
        stop.set()
        talk.join()
    expect(seen == list(range(1, len(seen) + 1)), f"lines are lost or come twice: {seen}")
    texts = {line["seq"]: line["text"] for document in node.json_lines("events") for line in document.get("events", [document])}
    expect(set(seen) <= set(texts), "the stream has other lines than shoal events")
    return f"{len(seen)} lines over 6 connections"


@case(limit_s=90)
def the_door_comes_back_and_the_daemon_does_not_notice(lab):
    node = lab.mesh(1, slots="cpu:1", options=DOOR).nodes[0]
    identity = lab.submit(node, {**RUNNING, "searcher": {"name": "single", "metric": "loss"}, "hyperparameters": {}})
    wait_until(lambda: show(lab.meshes[0], identity)["trials"][0]["state"] == "running", 20, "the trial to run")
    door = Door(node)
    streams = [door.stream(f"/experiments/{identity}/watch"), door.stream("/events?follow=true"),
               door.stream(f"/experiments/{identity}/trials/0/logs?follow=true")]
    for stream in streams:
        next(stream)
    clients = len(list(Path(f"/proc/{node.daemon.pid}/fd").iterdir()))
    first = door.process()
    about = Path(f"/proc/{first}")
    expect("NoNewPrivs:\t1" in (about / "status").read_text(), "it may gain rights")
    expect((about / "oom_score_adj").read_text() == "1000\n", "a trial goes before the door when memory runs out")
    expect(str(node.dir) not in (about / "cmdline").read_text() and (about / "environ").read_bytes() == b"", "it is told where the data is")
    for _ in range(2):
        killed = door.process()
        os.kill(killed, signal.SIGKILL)
        began = time.monotonic()
        wait_until(lambda: door.process() not in (None, killed), 10, "another door")
        wait_until(lambda: node.run("open", "--print", check=False).startswith("http"), 10, "the door to listen")
        lab.note(f"back after {time.monotonic() - began:.1f} s")
        door = Door(node, door.token)
        expect(door.get("/api/v1/status").status == 200, "it answers again")
    for stream in streams:
        list(stream)  # over
    expect(door.process() != first and node.is_running(), "the same process")
    wait_until(lambda: len(list(Path(f"/proc/{node.daemon.pid}/fd").iterdir())) <= clients - 3, 10, "descriptors to be closed")
    trial = show(lab.meshes[0], identity)["trials"][0]
    expect(trial["state"] == "running" and trial["attempt"] == 1, f"the trial was disturbed: {trial}")
    streams = [door.stream(f"/experiments/{identity}/watch"), door.stream("/events?follow=true")]
    for stream in streams:
        next(stream)
    process = door.process()
    node.kill_daemon()
    for stream in streams:
        for _ in stream:
            pass
    wait_until(lambda: not Path(f"/proc/{process}").exists(), 10, "the door to end with its daemon")
    node.start()
    expect(Door(node, door.token).get("/api/v1/status").status == 200, "the next daemon has a door")


@case(limit_s=60)
def two_daemons_of_a_machine_have_a_door_each(lab):
    """The default port is one daemon's; the other takes a free one."""
    mesh = lab.mesh(2, slots="cpu:1", options=["--http", "127.0.0.1:7412"])
    first, second = (Door(node) for node in mesh.nodes)
    expect(first.port != second.port, f"both have port {first.port}")
    for door in (first, second):
        expect(door.document("/session")["node"] == door.node.json("status")["node"]["id"], "it is another node's door")


@case(limit_s=200, whole=True)
def the_api_document_and_the_metrics_are_what_their_tools_take(lab):
    python = python_with("http-venv", "openapi-spec-validator==0.7.1", "prometheus_client==0.21.0", "jsonschema==4.23.0")
    _, door, _, _ = with_work(lab)
    files = lab.dir / "said"
    files.mkdir()
    (files / "openapi.json").write_bytes(door.get("/api/v1/openapi.json").body)
    plain, opened = door.get("/metrics"), door.get("/metrics", Accept="application/openmetrics-text; version=1.0.0")
    expect(plain.fields["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8", f"{plain.fields['Content-Type']}")
    expect(opened.fields["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8", f"{opened.fields['Content-Type']}")
    (files / "plain.txt").write_bytes(plain.body)
    (files / "open.txt").write_bytes(opened.body)
    script = """
import json, sys
from openapi_spec_validator import OpenAPIV31SpecValidator
from prometheus_client.parser import text_string_to_metric_families as plain
from prometheus_client.openmetrics.parser import text_string_to_metric_families as opened
OpenAPIV31SpecValidator(json.load(open("openapi.json"))).validate()
a = {f.name: f for f in plain(open("plain.txt").read())}
b = {f.name: f for f in opened(open("open.txt").read())}
assert set(a) == set(b), set(a) ^ set(b)
assert all(f.documentation for f in [*a.values(), *b.values()])
assert all(a[n].type == b[n].type for n in a), {n: (a[n].type, b[n].type) for n in a if a[n].type != b[n].type}
states = {s.labels["state"]: s.value for s in a["shoal_trials"].samples}
assert states.get("completed") == 1 and states.get("running") == 2, states
print(len(a))
"""
    done = subprocess.run([python, "-c", script], cwd=files, capture_output=True, text=True, timeout=60)
    expect(done.returncode == 0, f"a tool refuses it: {done.stderr[-1500:]}\n{plain.body.decode()}")
    promtool = shutil.which("promtool")
    if promtool:
        checked = subprocess.run([promtool, "check", "metrics"], input=plain.body, capture_output=True, timeout=60)
        expect(checked.returncode == 0 and not checked.stderr.strip(), f"promtool: {checked.stdout} {checked.stderr}")
    return f"{done.stdout.strip()} metrics, promtool {'too' if promtool else 'is not installed'}"
