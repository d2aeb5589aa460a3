"""Webhooks: a receiver hears of each event at least once, whoever dies, with one id and a signature that holds."""

import base64
import hashlib
import hmac
import json
import shutil
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from case_secrets import set_secret
from lab import Skip, case, expect, wait_over, wait_until

KEY = base64.b64encode(bytes(range(24))).decode()


class Receiver:
    """Answers by the path: /ok 200, /hang never while `hangs` is set, /gone 410, /moved 302; keeps what came."""

    def __init__(self, lab):
        if not (lab.meshes[0].nodes[0].bin / "shoal-webhook").exists():
            raise Skip("this build has no shoal-webhook, since libcurl is missing")
        receiver = self
        self.heard = []
        self.hangs = threading.Event()
        self.release = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.heard.append((self.path, self.headers, body))
                if self.path == "/hang" and receiver.hangs.is_set():
                    receiver.release.wait(30)
                    return
                status = {"/gone": 410, "/moved": 302}.get(self.path, 200)
                self.send_response(status)
                self.send_header("Location", f"http://127.0.0.1:{receiver.port}/ok")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        lab.at_end.append(self.end)

    def end(self):
        self.release.set()
        self.server.shutdown()
        self.server.server_close()

    def url(self, path="/ok"):
        return f"http://127.0.0.1:{self.port}{path}"

    def told(self, kind, path=None):
        """(id, document, fields, body) of what came of this type."""
        found = []
        for at, fields, body in list(self.heard):
            document = json.loads(body)
            if document.get("type") == kind and path in (None, at):
                found.append((fields["webhook-id"], document, fields, body))
        return found


def is_signed(fields, body, key=KEY):
    text = f"{fields['webhook-id']}.{fields['webhook-timestamp']}.".encode() + body
    wanted = base64.b64encode(hmac.new(base64.b64decode(key), text, hashlib.sha256).digest()).decode()
    return fields["webhook-signature"] == f"v1,{wanted}" and abs(time.time() - int(fields["webhook-timestamp"])) < 300


def submit(lab, node, webhooks, entrypoint="echo hello; echo Traceback of nothing", **more):
    return lab.submit(node, {"name": "told", "entrypoint": entrypoint, "webhooks": webhooks,
                             "searcher": {"name": "single", "metric": "loss"}, **more})


def rows(node):
    return {row["url"]: row for row in node.json("webhook", "ls")["webhooks"]}


@case(limit_s=60)
def a_test_of_a_webhook_says_why_it_failed_and_names_the_mesh_on_every_node(lab):
    alder, birch = lab.mesh(2, slots="cpu:1").nodes
    receiver = Receiver(lab)
    birch.run("webhook", "add", receiver.url(), "--on", "failed")
    birch.run("webhook", "test", birch.json("webhook", "ls")["webhooks"][0]["id"])
    said = wait_until(lambda: rows(birch)[receiver.url()]["last_text"], 20, "the reason")
    expect("shoal webhook allow HOST" in said and said in birch.run("webhook", "ls"), said)
    birch.run("webhook", "allow", "127.0.0.1")
    birch.run("webhook", "test", birch.json("webhook", "ls")["webhooks"][0]["id"])
    told = wait_until(lambda: receiver.told("webhook.test"), 30, "the test")[0][1]
    expect(told["data"]["mesh"] == alder.json("status")["mesh"]["name"] == birch.json("status")["mesh"]["name"] == "lab", f"{told}")


@case(limit_s=120, whole=True)
def a_webhook_is_told_signed_with_one_id_and_only_where_the_mesh_allows(lab):
    node = lab.mesh(1, slots="cpu:1").nodes[0]
    mesh, receiver = lab.meshes[0], Receiver(lab)
    set_secret(node, "HOOK_KEY", f"whsec_{KEY}")
    set_secret(node, "CHAT_URL", receiver.url("/chat"))
    hooks = [{"url": receiver.url(), "on": ["completed", "failed", {"log_match": "^Traceback"}], "secret": "HOOK_KEY"},
             {"url": "secret:CHAT_URL", "on": ["completed"], "form": "slack"}]
    identity = submit(lab, node, hooks)
    wait_over(mesh, identity, 40)
    wait_until(lambda: "webhook allow" in node.run("events"), 20, "the address of this machine to be refused")
    expect(receiver.heard == [], "an address of this machine was reached")
    node.run("webhook", "allow", "127.0.0.1")
    wait_until(lambda: receiver.told("experiment.completed"), 30, "the next try")
    _, document, fields, body = receiver.told("experiment.completed")[0]
    expect(is_signed(fields, body), f"{fields}")
    expect(document["data"] == {"mesh": "lab", "experiment": identity, "name": "told"}, f"{document}")
    line = wait_until(lambda: receiver.told("trial.log_match"), 30, "the line of the log")[0]
    expect(line[1]["data"]["line"] == "Traceback of nothing" and is_signed(line[2], line[3]), f"{line[1]}")
    chat = wait_until(lambda: [json.loads(body) for at, _, body in receiver.heard if at == "/chat"], 30, "the sentence")
    expect(chat[0] == {"text": f"told ({identity[:8]}) is completed on lab"}, f"{chat}")
    ids = [node.json("webhook", "add", receiver.url(path), "--on", "completed", "--on", "failed")["webhook"]
           for path in ("/gone", "/moved")]
    node.run("webhook", "test", ids[0][:6])
    wait_until(lambda: rows(node)[receiver.url("/gone")]["state"] == "ended", 20, "410 to end it")
    failing = submit(lab, node, [], entrypoint="exit 3", max_restarts=0)
    wait_over(mesh, failing, 40, state="failed")
    wait_until(lambda: receiver.told("experiment.failed", "/moved"), 20, "the failure to be told")
    wait_until(lambda: rows(node)[receiver.url("/moved")]["state"] == "failing", 20, "a redirect to be a failure")
    expect("redirects" in rows(node)[receiver.url("/moved")]["last_text"], f"{rows(node)}")
    expect(not receiver.told("experiment.failed", "/gone"), "what has ended is told")
    expect(not receiver.told("experiment.failed", "/ok"), "a redirect is followed")
    expect(not receiver.told("experiment.completed", "/moved"), "an end before the webhook is told")
    node.run("webhook", "rm", ids[0])
    expect(receiver.url("/gone") not in rows(node), "it is removed")
    expect(f"whsec_{KEY}" not in node.run("config", identity) + node.run("events"), "the secret is shown")


def sender_of(mesh):
    """The node whose daemon runs a shoal-webhook."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "comm").read_text().strip() == "shoal-webhook":
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                for node in mesh.living():
                    if node.daemon.pid == parent:
                        return node
        except (OSError, IndexError):
            continue
    return None


@case(limit_s=120)
def an_event_is_told_with_the_same_id_though_the_node_that_was_about_to_tell_it_dies(lab):
    mesh = lab.mesh(3, slots="cpu:1")
    receiver = Receiver(lab)
    node = mesh.nodes[0]
    node.run("webhook", "allow", "127.0.0.1")
    set_secret(node, "HOOK_KEY", f"whsec_{KEY}")
    wait_until(lambda: all(not each.json("status")["syncing"] for each in mesh.nodes), 40, "the nodes to be in step")
    receiver.hangs.set()
    identity = submit(lab, node, [{"url": receiver.url("/hang"), "on": ["completed"], "secret": "HOOK_KEY"}])
    wait_over(mesh, identity, 40)
    victim = wait_until(lambda: sender_of(mesh), 20, "a node to tell it")
    wait_until(lambda: receiver.told("experiment.completed"), 10, "the receiver to hear and to say nothing")
    victim.kill_machine()
    receiver.hangs.clear()
    wait_until(lambda: len(receiver.told("experiment.completed")) >= 2, 40, "another node to tell it")
    ids = {message for message, *_ in receiver.told("experiment.completed")}
    expect(len(ids) == 1, f"one event has the ids {ids}")
    expect(all(is_signed(*told[2:]) for told in receiver.told("experiment.completed")), "a signature does not hold")
    return f"{victim.name} died"


@case(limit_s=90, whole=True)
def a_lost_node_is_told_once_and_a_new_best_trial_too(lab):
    mesh = lab.mesh(3, slots="cpu:1")
    receiver = Receiver(lab)
    alder = mesh.nodes[0]
    alder.run("webhook", "allow", "127.0.0.1")
    alder.run("webhook", "add", receiver.url(), "--on", "node_lost", "--on", "best")
    wait_until(lambda: all(not each.json("status")["syncing"] for each in mesh.nodes), 40, "the nodes to be in step")
    identity = lab.submit(alder, {"name": "best", "entrypoint": "echo '::shoal metric validation loss=0.5 step=1'",
                                  "metrics_from_output": True, "searcher": {"name": "single", "metric": "loss"}})
    wait_over(mesh, identity, 40)
    best = wait_until(lambda: receiver.told("trial.best"), 20, "the best trial")
    expect(best[0][1]["data"]["value"] == 0.5 and best[0][1]["data"]["trial"] == 0, f"{best}")
    victim = mesh.nodes[2]
    victim.kill_machine()
    lost = wait_until(lambda: receiver.told("node.lost"), 40, "the loss")
    expect(lost[0][1]["data"]["label"] == victim.name, f"{lost[0][1]}")
    expect(len({message for message, *_ in receiver.told("node.lost")}) == 1, "one id")


@case(limit_s=60)
def a_build_without_libcurl_says_that_it_tells_no_webhooks(lab):
    bare = lab.dir / "bare"
    bare.mkdir()
    for name in ("shoal", "shoald", "shoal-keep", "shoal-http"):
        if (Path(lab.build) / name).exists():
            shutil.copy2(Path(lab.build) / name, bare / name)
    built, lab.build = lab.build, bare
    node = lab.mesh(1, slots="cpu:1").nodes[0]
    lab.build = built
    expect(not node.json("status")["tells_webhooks"], "the status says that it tells webhooks")
    expect("webhooks     not told by this node" in node.run("status"), node.run("status"))

    def warned(*words):
        done = subprocess.run([node.bin / "shoal", *words, "--dir", node.dir], capture_output=True, text=True, timeout=60, cwd=node.tree)
        expect(done.returncode == 0, f"{words}: {done.stderr}")
        return "this node tells no webhooks" in done.stderr

    expect(warned("webhook", "add", "http://receiver.example/", "--on", "failed"), "webhook add does not warn")
    for name, webhooks in (("plain", None), ("told", [{"url": "http://receiver.example/", "on": ["completed"]}])):
        config = {"name": name, "entrypoint": "true", "searcher": {"name": "single", "metric": "loss"}}
        (node.tree / f"{name}.yaml").write_text(json.dumps({**config, **({"webhooks": webhooks} if webhooks else {})}))
        expect(warned("submit", f"{name}.yaml") == (webhooks is not None), f"submit of {name}")
