"""`jupyter lab` as far as `shoal notebook` knows it: a port, a token, kernels, and a page that shows what the browser has sent."""

import http.server
import json
import os
import signal
import sys

options = dict(word.removeprefix("--ServerApp.").split("=", 1) for word in sys.argv if word.startswith("--ServerApp."))
state = os.path.join(options["root_dir"], "last-use")  # its content: the kernels' document


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        is_known = self.headers.get("Authorization") == f"token {os.environ['JUPYTER_TOKEN']}"
        path = self.path.split("?")[0]
        if path == "/api/kernels" and not is_known:
            self.answer(403, {})
        elif path == "/api/kernels":
            self.answer(200, json.loads(open(state).read()) if os.path.exists(state) else [])
        elif path == "/api":
            self.answer(200, {"version": "0"})
        elif path == "/lab":
            self.answer(200, {"headers": dict(self.headers), "path": self.path, "rank": os.environ.get("RANK"), "argv": sys.argv,
                              "files": sorted(os.listdir("."))})
        else:
            self.answer(404, {})

    def answer(self, status, document):
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


assert sys.argv[1] == "lab", sys.argv
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
http.server.ThreadingHTTPServer((options["ip"], int(options["port"])), Handler).serve_forever()
