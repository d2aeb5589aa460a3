"""The points of a trial that has begun anew: all are there, and those of steps that were made again say so."""

from lab import case, expect, show, wait_over


@case(limit_s=60)
def points_that_a_later_attempt_made_anew_are_kept_and_marked(lab):
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    script = ("if [ $SHOAL_ATTEMPT = 1 ]; then set -- report:training:loss:10:1 save:10:1000 flush report:training:loss:20:2 "
              f"flush exit:3; else set -- report:training:loss:15:9 flush; fi; exec {lab.build}/scripted_worker \"$@\"")
    identity = lab.submit(node, {"name": "back", "entrypoint": script, "max_restarts": 1, "searcher": {
        "name": "single", "metric": "loss"}})
    wait_over(mesh, identity, 40)
    points = {(p["attempt"], p["step"]): p.get("void", False) for p in node.json_lines("metrics", identity)}
    expect(points == {(1, 10): False, (1, 20): True, (2, 15): False}, f"points and whether they are void: {points}")
    lines = node.run("metrics", identity).splitlines()
    expect([line.split()[5] for line in lines if "step=20" in line] == ["void"], f"step 20 is not marked: {lines}")
    expect(sum(" void " in line for line in lines) == 1, f"a valid step is marked: {lines}")
    expect(show(mesh, identity)["trials"][0]["metrics"]["training"]["loss"] == 9, "show has not the newest value")

    identity = lab.submit(node, {"name": "down", "entrypoint": f"exec {lab.build}/scripted_worker report:training:loss:10:1 "
                                 "report:training:loss:5:2 flush", "searcher": {
                                     "name": "single", "metric": "loss"}})
    wait_over(mesh, identity, 40)
    points = [(p["step"], p.get("void", False)) for p in node.json_lines("metrics", identity)]
    expect(sorted(points) == [(5, False), (10, False)], f"of one attempt whose steps go back: {points}")
