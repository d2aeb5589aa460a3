"""The queue of the mesh: which experiments wait for slots, in which order, and what for."""

from door import DOOR, Door
from lab import case, expect, wait_until
from look import refusal

HOLD = "sleep 600"


def work(name, trials=1, slots=1, priority=50):
    return {"name": name, "entrypoint": HOLD, "resources": {"slots_per_trial": slots, "priority": priority},
            "hyperparameters": {"x": {"type": "double", "minval": 0, "maxval": 1}},
            "searcher": {"name": "random", "metric": "loss", "max_trials": trials}}


@case(limit_s=90)
def the_queue_has_its_order_and_reasons_on_every_node(lab):
    mesh = lab.mesh(2, slots="cpu:1", options=DOOR)
    alder, birch = mesh.nodes
    expect(alder.run("queue").strip() == "nothing waits for slots" and alder.json("queue")["queue"] == [], "an idle mesh has a queue")
    holder = lab.submit(alder, work("holder", trials=2, priority=40))
    wait_until(lambda: {slot["state"] for slot in alder.json("slots")["slots"]} == {"leased"}, 30, "both slots to be taken")
    later = lab.submit(alder, work("later", trials=3))
    wide = lab.submit(birch, work("wide", slots=2))
    urgent = lab.submit(birch, work("urgent", priority=7))

    def queue(node):
        return node.json("queue")["queue"]

    def is_queue_of(names):
        return all([row["name"] for row in queue(node)] == names for node in mesh.nodes)

    wait_until(lambda: is_queue_of(["urgent", "later", "wide"]) or is_queue_of(["urgent", "wide", "later"]), 20, "one queue on both nodes")
    rows = {row["name"]: row for row in queue(birch)}  # two submits within one second are in the order of their ids
    expect([row["position"] for row in queue(birch)] == [1, 2, 3], f"positions: {rows}")
    expect(rows["urgent"]["priority"] == 7 and rows["urgent"]["experiment"] == urgent, f"{rows['urgent']}")
    expect((rows["later"]["trials"], rows["later"]["trial"], rows["later"]["slots"]) == (3, 0, 1), f"{rows['later']}")
    expect(rows["later"]["reason"] == "no slot is free: 2 taken by holder", f"{rows['later']}")
    expect(rows["wide"]["reason"] == "it needs 2 slots at once and 0 can be had now: 2 taken by holder", f"{rows['wide']}")
    submitted = {row["id"]: row["submitted_s"] for row in alder.json("ls")["experiments"]}
    expect(rows["wide"]["since_s"] == submitted[wide], f"{rows['wide']} was submitted at {submitted[wide]}")
    table = alder.run("queue").splitlines()
    expect(table[0].split()[:3] == ["#", "NAME", "ID"] and table[1].split()[:4] == ["1", "urgent", urgent[:8], "7"], "\n".join(table))
    expect(all("taken by holder" in line for line in table[1:]), "\n".join(table))

    alder.run("set", wide, "priority=3")
    wait_until(lambda: is_queue_of(["wide", "urgent", "later"]), 20, "the order to follow the priority")
    alder.run("pause", urgent)
    wait_until(lambda: is_queue_of(["wide", "later"]), 20, "the paused experiment to leave the queue")
    birch.run("withhold", "0")
    wait_until(lambda: is_queue_of(["wide", "holder", "later"]), 30, "the trial that has left its slot to be in the queue again")
    rows = queue(alder)
    expect(all(text in rows[0]["reason"] for text in ("1 taken by holder", "1 on birch withheld by the owner")), f"{rows[0]}")
    expect(rows[1]["trials"] == 1 and rows[1]["since_s"] >= submitted[holder], f"{rows[1]}")

    door = Door(birch)
    expect([row["name"] for row in door.document("/queue")["queue"]] == ["wide", "holder", "later"], f"{door.document('/queue')}")
    expect(door.get("/api/v1/queue", token=None).status == 401, "the queue needs no token")
    expect(door.get("/api/v1/queue?position=1").status == 400, "an argument that the route does not have")
    for words in (("queue", "wide"), ("queue", "--all")):  # it takes neither a name nor an option
        expect(words[1] in refusal(alder, *words, code=2), f"{words}")
    for identity in (holder, later, wide, urgent):
        alder.run("cancel", identity)
    wait_until(lambda: queue(birch) == [] and birch.run("queue").strip() == "nothing waits for slots", 30, "an empty queue")
