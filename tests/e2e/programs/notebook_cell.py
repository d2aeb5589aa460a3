"""Runs a cell in a kernel of a notebook, as JupyterLab's page does: through its REST API and a WebSocket. usage: URL CELL"""

import json
import sys
import urllib.parse
import urllib.request
import uuid

import websocket

url = urllib.parse.urlsplit(sys.argv[1])
token = urllib.parse.parse_qs(url.query)["token"][0]
fields = {"Authorization": f"token {token}"}


def ask(method, path, body=None):
    request = urllib.request.Request(f"http://{url.netloc}{path}", method=method, headers={**fields, "Content-Type": "application/json"},
                                     data=json.dumps(body).encode() if body is not None else None)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read() or b"null")


kernel = ask("POST", "/api/kernels", {"name": "python3"})["id"]
session = uuid.uuid4().hex
channel = websocket.create_connection(f"ws://{url.netloc}/api/kernels/{kernel}/channels?session_id={session}", timeout=120,
                                      header=[f"Authorization: token {token}"])
message = uuid.uuid4().hex
channel.send(json.dumps({"header": {"msg_id": message, "msg_type": "execute_request", "username": "", "session": session, "version": "5.3"},
                         "parent_header": {}, "metadata": {}, "channel": "shell",
                         "content": {"code": sys.argv[2], "silent": False, "store_history": True, "allow_stdin": False}}))
written = ""
while True:
    told = json.loads(channel.recv())
    if told["parent_header"].get("msg_id") != message:
        continue
    if told["msg_type"] == "stream":
        written += told["content"]["text"]
    elif told["msg_type"] == "error":
        sys.exit("\n".join(told["content"]["traceback"]))
    elif told["msg_type"] == "status" and told["content"]["execution_state"] == "idle":
        break
channel.close()
print(json.dumps({"kernel": kernel, "written": written, "lab": urllib.request.urlopen(sys.argv[1], timeout=60).status}))
