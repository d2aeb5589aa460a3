"""The events of daemons, as they happen."""

import json
import subprocess
import threading
import time

BOUND_S = 60         # nothing that is waited for takes so long unless it is broken
CLOCK_STEP_S = 0.02  # more than a clock that is kept right drifts between two waits


def clock_offset():
    return time.time() - time.monotonic()


class Listener:
    """The events of one node with their times, by the machine's clock, time.time(). The stream itself
    comes in rounds of half a second."""

    def __init__(self, node):
        self.said = {}  # text -> times
        self.offset = clock_offset()
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
                self.said.setdefault(event["text"], []).append(event["wall_ms"] / 1000)
                self.changed.notify_all()

    def first(self, text, after):
        return next((moment for moment in self.said.get(text, ()) if moment > after - 0.001), None)

    def wait(self, text, after):
        """When it was said first after this moment of time.time(); events are stamped with the millisecond that has begun. Raises
        RuntimeError if the clock was set since the last wait."""
        with self.changed:
            if not self.changed.wait_for(lambda: self.first(text, after) is not None, BOUND_S):
                raise TimeoutError(f"waited {BOUND_S} s for '{text}'")
        before, self.offset = self.offset, clock_offset()
        if abs(self.offset - before) > CLOCK_STEP_S:
            raise RuntimeError(f"the clock of this machine was set by {self.offset - before:.3f} s during a measurement; run it again")
        return self.first(text, after)

    def end(self):
        self.command.kill()
        self.command.wait()
        self.thread.join()


def percentile(values, share):
    """The smallest value that at least this share of the values does not exceed."""
    return sorted(values)[max(0, -(-len(values) * share // 100) - 1)]
