"""What daemons say, as it happens."""

import json
import subprocess
import threading

BOUND_S = 60  # nothing that is waited for takes so long unless it is broken


class Listener:
    """The events of one node: when it said each text last, by its own clock, in seconds since 1970. The stream itself comes in
    rounds of half a second; the clock is that of this machine, as time.time()."""

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
                event = json.loads(line)
                self.said[event["text"]] = event["wall_ms"] / 1000
                self.changed.notify_all()

    def wait(self, text, after):
        """When it was said first after this moment of time.time(); events are stamped with the millisecond that has begun."""
        with self.changed:
            if not self.changed.wait_for(lambda: self.said.get(text, 0) > after - 0.001, BOUND_S):
                raise TimeoutError(f"waited {BOUND_S} s for '{text}'")
            return self.said[text]

    def end(self):
        self.command.kill()
        self.command.wait()
        self.thread.join()


def percentile(values, share):
    """The smallest value that at least this share of the values does not exceed."""
    return sorted(values)[max(0, -(-len(values) * share // 100) - 1)]
