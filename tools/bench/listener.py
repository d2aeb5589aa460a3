"""What daemons say, as it happens."""

import json
import subprocess
import threading
import time

BOUND_S = 60  # nothing that is waited for takes so long unless it is broken


class Listener:
    """The events of one node as they happen: when each text was last said."""

    def __init__(self, node):
        self.said = {}
        self.changed = threading.Condition()
        self.command = subprocess.Popen(
            [*node.wrap, str(node.bin / "shoal"), "events", "--follow", "--json", "--dir", str(node.dir)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        for line in self.command.stdout:
            with self.changed:
                self.said[json.loads(line)["text"]] = time.monotonic()
                self.changed.notify_all()

    def wait(self, text, after):
        """When it was first heard after this moment."""
        with self.changed:
            if not self.changed.wait_for(lambda: self.said.get(text, 0) > after, BOUND_S):
                raise TimeoutError(f"waited {BOUND_S} s for '{text}'")
            return self.said[text]

    def end(self):
        self.command.kill()
        self.command.wait()
        self.thread.join()


def percentile(values, share):
    """The smallest value that at least this share of the values does not exceed."""
    return sorted(values)[max(0, -(-len(values) * share // 100) - 1)]
