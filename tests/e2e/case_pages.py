"""What the pages of the dashboard ask beside the documents of the command line: files that programs have left, one by one,
and the calendar of the slots."""

import json

from door import DOOR, Door
from lab import case, expect, wait_over, wait_until

LEAVES = ('mkdir $SHOAL_OUTPUT_DIR/many; for i in $(seq 3000); do echo $i > $SHOAL_OUTPUT_DIR/many/file-with-a-long-name-$i.txt; done; '
          'printf "a,b\\n1,2\\n" > $SHOAL_OUTPUT_DIR/table.csv; : > $SHOAL_OUTPUT_DIR/empty.txt; '
          'echo "<script>alert(1)</script>" > $SHOAL_OUTPUT_DIR/page.html; ln -s table.csv $SHOAL_OUTPUT_DIR/link.csv')


def submit(lab, node, **more):
    return lab.submit(node, {"name": "left", "entrypoint": LEAVES, "searcher": {"name": "single", "metric": "loss"}, **more})


@case(limit_s=90)
def files_that_a_program_has_left_are_listed_and_read_one_by_one(lab):
    """On each node, whether the snapshot is there or not; the listing of 3,000 files is longer than what is read first."""
    mesh = lab.mesh(3, options=DOOR)
    found = submit(lab, mesh.nodes[0])
    wait_over(mesh, found, 60)
    wait_until(lambda: mesh.nodes[0].run("output", "ls", f"{found}/0", check=False), 30, "the files that it left")
    for node in mesh.nodes:
        door = Door(node)
        left = f"/experiments/{found}/trials/0/outputs/0"
        listed = door.document(f"{left}/files")
        files = {one["path"]: one for one in listed["files"]}
        expect(not listed["cut"] and files["output/many"]["kind"] == "directory", f"{len(files)} files")
        expect(files["output/table.csv"]["bytes"] == 8 and files["output/table.csv"]["modified_ms"] > 1e12, f"{files['output/table.csv']}")
        expect(files["output/link.csv"]["kind"] == "link" and files["output/link.csv"]["link"] == "table.csv", "the link")
        for path, body, kind in (("table.csv", b"a,b\n1,2\n", "text/csv; charset=utf-8"), ("empty.txt", b"", "text/plain; charset=utf-8"),
                                 ("many/file-with-a-long-name-2999.txt", b"2999\n", "text/plain; charset=utf-8"),
                                 ("page.html", b"<script>alert(1)</script>\n", "application/octet-stream")):
            answer = door.get(f"/api/v1{left}/file?path=output/{path}")
            expect((answer.status, answer.body, answer.fields["Content-Type"]) == (200, body, kind), f"{path}: {answer} {answer.fields}")
            expect("sandbox" in answer.fields["Content-Security-Policy"] and answer.fields["Content-Disposition"] == "attachment",
                   f"{path}: {answer.fields}")
        for path, status in (("output/link.csv", 404), ("output/many", 404), ("output/../output/table.csv", 404), ("/etc/passwd", 404),
                             ("", 400), ("x" * 2000, 400)):
            answer = door.get(f"/api/v1{left}/file?path={path}")
            expect(answer.status == status and answer.json()["detail"].endswith("."), f"{path[:40]}: {answer}")
        expect(door.get(f"/api/v1{left[:-1]}7/files").status == 404, "a worker that is not there")


@case(limit_s=60)
def the_calendar_tells_which_experiment_held_which_slot_when(lab):
    mesh = lab.mesh(2, slots="cpu:1", options=DOOR)
    door = Door(mesh.nodes[1])
    quick = lab.submit(mesh.nodes[0], {"name": "quick", "entrypoint": "true", "hyperparameters": {"x": {"type": "double", "minval": 0, "maxval": 1}},
                                       "searcher": {"name": "random", "metric": "loss", "max_trials": 6}})
    wait_over(mesh, quick, 60)
    slow = lab.submit(mesh.nodes[0], {"name": "slow", "entrypoint": "sleep 600", "searcher": {"name": "single", "metric": "loss"}})

    def spans(query=""):
        return door.document(f"/calendar{query}")["calendar"]

    wait_until(lambda: any(one["open"] and one["experiment"] == slow for one in spans()), 30, "the running trial in the calendar")
    wait_until(lambda: sum(one["workers"] for one in spans() if one["experiment"] == quick) == 6, 30, "six workers in the calendar")
    places = [(one["node"], one["index"]) for one in spans() if one["experiment"] == quick]
    expect(len(places) == len(set(places)) <= 2, f"one span for each slot: {spans()}")
    alone = [one for one in spans("?gap_s=0") if one["experiment"] == quick]
    expect(sum(one["workers"] for one in alone) == 6 and all(one["name"] == "quick" for one in alone), f"{alone}")
    expect(spans("?from_s=0&until_s=1000") == [], "a window of long ago")
    wrong = door.get("/api/v1/calendar?from_s=9&until_s=3")
    expect(wrong.status == 400 and "before it begins" in wrong.json()["detail"], f"{wrong}")
    for node in mesh.nodes:
        expect(json.loads(node.run("slots", "--json"))["slots"], "the daemon is well")


@case(limit_s=60)
def an_experiment_becomes_a_file_for_somebody_without_an_account(lab):
    """By the command line and by the door alike, with names that are markup; nothing in it is loaded or run."""
    node = lab.mesh(1, options=DOOR).nodes[0]
    door = Door(node)
    found = lab.submit(node, {
        "name": "<script>alert(1)", "metrics_from_output": True, "description": "a & b</script>",
        "entrypoint": 'for i in 1 2 3; do echo "::shoal metric validation loss=0.$i$SHOAL_TRIAL step=$i"; done',
        "hyperparameters": {"net": {"lr": {"type": "log", "base": 10, "minval": -4, "maxval": -1}},
                            "opt": {"type": "categorical", "vals": ["sgd", 'ad"am']}},
        "searcher": {"name": "random", "metric": "loss", "max_trials": 4}})
    wait_over(lab.meshes[0], found, 60)
    trials = node.json("show", found)["experiment"]["trials"]
    for form, kind in (("html", "text/html; charset=utf-8"), ("csv", "text/csv; charset=utf-8"), ("svg", "image/svg+xml")):
        file = node.tree / f"left.{form}"
        expect(node.run("export", found, f"--{form}", file) == f"{file}\n", "the name of the file")
        text = file.read_bytes().decode()
        answer = door.get(f"/api/v1/experiments/{found}/export?as={form}")
        expect((answer.status, answer.fields["Content-Type"], answer.fields["Content-Disposition"]) == (200, kind, "attachment"), f"{answer.fields}")
        expect(abs(len(answer.body) - len(text.encode())) < 100, f"the door's {form} has {len(answer.body)} bytes, not {len(text)}")
        expect("<script" not in text and ("href" in text or "src=" in text) is False, f"{form}: {text[:300]}")
        if form == "html":
            expect(all(part in text for part in ("&lt;script&gt;alert(1)", "a &amp; b&lt;/script&gt;", "<svg", "loss against net.lr", "class=\"curve s0\"", "entrypoint:")), text)
        elif form == "csv":
            lines = text.split("\r\n")
            expect(lines[0].startswith("trial,state,attempt,step,restarts,started,ended,took_s,validation/loss,net.lr,opt"), lines[0])
            values = [line.split(",") for line in lines[1:-1]]
            expect([float(one[9]) for one in values] == [one["hyperparameters"]["net"]["lr"] for one in trials], f"{values}")
            expect([float(one[8]) for one in values] == [round(0.3 + i / 100, 2) for i in range(4)], f"{values}")
    expect(node.run("export", found, "--csv", "-") == (node.tree / "left.csv").read_text(), "'-' is standard output")
    wrong = door.get(f"/api/v1/experiments/{found}/export?as=pdf")
    expect(wrong.status == 400 and "html" in wrong.json()["detail"], f"{wrong}")
    expect(door.get("/api/v1/experiments/0123456789abcdef/export").status == 404, "an experiment that is not there")
    expect("--html" in node.run("export", "--help"), "the help names the forms")
