"""Two machines may have one host name: what people read tells them apart, and what they type is refused unless it does, too."""

from lab import Refused, case, expect, show, wait_over, wait_until


def labels(node):
    return {row["id"]: row["label"] for row in node.json("nodes")["nodes"]}


@case(limit_s=60)
def equal_names_are_told_apart_wherever_they_are_printed(lab):
    mesh = lab.mesh(["alder", "elm-1", "elm-2"], start=False, slots="cpu:1")
    alder, first, second = mesh.nodes
    first.name = second.name = "elm"
    mesh.start()
    wait_until(lambda: sum("~" in label for label in labels(alder).values()) == 2, 20, "two labels with digits")
    ids = {node: node.json("status")["node"]["id"] for node in mesh.nodes}
    expected = {ids[alder]: "alder", ids[first]: f"elm~{ids[first][:4]}", ids[second]: f"elm~{ids[second][:4]}"}
    expect(labels(alder) == expected, f"labels {labels(alder)}, not {expected}")
    expect({row["name"] for row in alder.json("nodes")["nodes"]} == {"alder", "elm"}, "a name is not as it was given")

    identity = lab.submit(alder, {"name": "e", "entrypoint": "sleep 600", "searcher": {
        "name": "single", "metric": "loss"}, "resources": {"slots_per_trial": 3}})
    wait_until(lambda: show(mesh, identity)["trials"][0]["state"] == "running", 30, "three workers")
    coordinator = show(mesh, identity)["coordinator"]
    for node in mesh.nodes:
        for words in (["nodes"], ["slots"], ["show", identity]):
            text = node.run(*words)
            expect(all(label in text for label in expected.values()), f"shoal {words[0]} at {node.dir} has no label in\n{text}")
        row = next(row for row in node.json("ls")["experiments"] if row["id"] == identity)
        expect(row["coordinator_label"] == expected[coordinator], f"the coordinator is {row['coordinator_label']}")
    expect(expected[ids[first]] in first.run("status"), "status calls its own node by a name that two have")
    events = "".join(node.run("events") for node in mesh.nodes)
    expect(f"{expected[ids[second]]} is alive" in events, f"no event has the label:\n{events}")

    try:
        alder.run("drain", "elm")
        expect(False, "a name of two nodes is taken")
    except Refused as refused:
        expect(all(ids[node] in refused.text for node in (first, second)), f"the candidates are not listed: {refused.text}")
    alder.run("drain", expected[ids[second]])
    alder.run("drain", ids[first][:8])
    drained = {row["id"] for row in alder.json("nodes")["nodes"] if row["drained"]}
    expect(drained == {ids[first], ids[second]}, f"drained are {drained}")
    try:
        alder.run("drain", "elm~zz")
        expect(False, "a label of no node is taken")
    except Refused as refused:
        expect(refused.code == 4, f"exit status {refused.code}")
    alder.run("cancel", identity)
    wait_over(mesh, identity, 30, "cancelled")

    alder.run("evict", expected[ids[second]], "--yes")
    wait_until(lambda: labels(alder)[ids[first]] == "elm", 20, "the only elm to be plain elm")
    expect(labels(alder)[ids[second]] == expected[ids[second]], "the former elm has its name alone")
    alder.run("undrain", "elm")
