"""Looks at every page of the dashboard in headless Chromium, in both themes, at 1280 and at 390 pixels: the page says what it
should, nothing is written to the console as an error, no request goes to another host, axe finds nothing serious, and no page
is wider than the window. Leaves a screenshot of each.

usage: pages.py --base http://127.0.0.1:7412 [--login LINK] [--shots FOLDER] [--only WORD]

`--login`: the one-time link that `shoal open` prints. Needs playwright and axe-playwright-python (PyPI), and Debian's
chromium."""

import argparse
import json
import sys
from pathlib import Path
from urllib.parse import quote, urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Error, sync_playwright

CHROMIUM = "/usr/bin/chromium"
SIZES = (("wide", 1280, 800), ("narrow", 390, 844))
THEMES = ("light", "dark")
SERIOUS = ("serious", "critical")
SETTLE_MS = 60000
SETTLED = """() => document.querySelector("main h1") &&
  ![...document.querySelectorAll("main p.quiet")].some(text => text.checkVisibility() && text.textContent === "Loading.")"""


class Broken(AssertionError):
    """A page that does not do what it should."""


class Watch:
    """Collects what a page must never do."""

    def __init__(self, context, base):
        self.host = urlsplit(base).netloc
        self.wrong = []
        context.on("request", self.request)
        context.on("console", self.console)
        context.on("weberror", lambda error: self.wrong.append(f"exception: {error.error}"))
        context.on("dialog", self.dialog)

    def request(self, request):
        address = urlsplit(request.url)
        if address.scheme in ("http", "https", "ws", "wss") and address.netloc != self.host:
            self.wrong.append(f"a request to {request.url}")

    def console(self, message):
        # The browser itself writes a line for each answer above 399; the pages show these in their own words.
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            self.wrong.append(f"console: {message.text}")

    def dialog(self, dialog):
        self.wrong.append(f"a dialog of a script: {dialog.message}")
        dialog.dismiss()

    def check(self, where):
        if self.wrong:
            raise Broken(f"{where}: {'; '.join(self.wrong)}")


def ask(page, path):
    """A document of the node, asked for with the session of the page."""
    return page.evaluate("path => fetch('/api/v1' + path).then(answer => answer.json())", path)


def interesting(page):
    """One experiment and trial of each kind that this mesh has."""
    experiments = ask(page, "/experiments")["experiments"]
    found = {"experiments": experiments}
    found["finished"] = next((e for e in experiments if e["state"] == "completed" and 1 < e["trials"]["total"] <= 5000), None)
    found["running"] = next((e for e in experiments if e["trials"]["running"] > 0), None)
    found["failed"] = next((e for e in experiments if e["trials"]["failed"] > 0), None)
    found["trials"] = {}
    for kind, state in (("finished", "completed"), ("running", "running"), ("failed", "failed")):
        if found[kind] is not None:
            trials = ask(page, f"/experiments/{found[kind]['id']}")["experiment"]["trials"]
            found["trials"][kind] = next((t["index"] for t in trials if t["state"] == state), None)
    return found


def pages_of(found):
    """name, address, and a text that must come to be seen."""
    yield "mesh", "#/mesh", "Nodes alive"
    yield "calendar", "#/calendar?span=hour", "Experiments in this window"
    yield "usage", "#/usage?span=week", "Over time"
    yield "queue", "#/queue", "A slot that becomes free"
    yield "experiments", "#/experiments", "Submitted"
    yield "settings", "#/settings", "This session"
    yield "compare-empty", "#/compare", "Pick trials"
    for kind in ("finished", "running", "failed"):
        experiment = found[kind]
        if experiment is None:
            continue
        address = f"#/experiments/{experiment['id']}"
        yield f"experiment-{kind}", address, "Trials"
        if kind == "finished":
            yield "experiment-charts", f"{address}?view=charts", "Parallel coordinates"
            yield "experiment-search", f"{address}?view=search", None
            yield "experiment-configuration", f"{address}?view=configuration", "The file as it was submitted"
            yield "experiment-events", f"{address}?view=events", "Events of this node"
            runs = ",".join(f"{experiment['id']}/{i}" for i in range(min(4, experiment["trials"]["total"])))
            yield "compare", f"#/compare?runs={quote(runs, safe='/,')}", "Only what differs"
        trial = found["trials"].get(kind)
        if trial is not None:
            yield f"trial-{kind}", f"{address}/trials/{trial}", "Curves"
            yield f"trial-{kind}-logs", f"{address}/trials/{trial}?view=logs", "Follow"
            yield f"trial-{kind}-profile", f"{address}/trials/{trial}?view=profile", "Where a step's time goes"
            yield f"trial-{kind}-overview", f"{address}/trials/{trial}?view=overview", "Attempts"
            if kind == "finished":
                yield "trial-files", f"{address}/trials/{trial}?view=files", "Outputs"
                yield "trial-platform", f"{address}/trials/{trial}?view=platform", None


def settle(page):
    """Waits until the page has what it asked for: no part says that it is loading."""
    page.wait_for_function(SETTLED, timeout=SETTLE_MS)
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def look(page, where, text):
    settle(page)
    if text is not None:
        page.get_by_text(text).first.wait_for(state="attached", timeout=SETTLE_MS)
    wide = page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
    if wide > 0:
        raise Broken(f"{where}: the page is {wide} pixels wider than the window")


def axe(page, where):
    found = Axe().run(page).response["violations"]
    serious = [f"{one['id']} ({one['impact']}): {one['nodes'][0]['html'][:160]} {one['nodes'][0]['failureSummary'][:300]}"
               for one in found if one["impact"] in SERIOUS]
    if serious:
        raise Broken(f"{where}: axe finds {'; '.join(serious)}")
    return [one["id"] for one in found]


def run(arguments):
    shots = Path(arguments.shots) if arguments.shots else None
    if shots:
        shots.mkdir(parents=True, exist_ok=True)
    failures, minor, count = [], {}, 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        state = None
        for theme in THEMES:
            for size, width, height in SIZES:
                context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme,
                                              reduced_motion="reduce", storage_state=state)
                watch = Watch(context, arguments.base)
                page = context.new_page()
                page.goto(arguments.login if arguments.login and state is None else arguments.base)
                settle(page)
                state = context.storage_state()
                for name, address, text in pages_of(interesting(page)):
                    where = f"{name}, {theme}, {size}"
                    if arguments.only and arguments.only not in where:
                        continue
                    count += 1
                    try:
                        page.goto(f"{arguments.base}/{address}")
                        look(page, where, text)
                        for one in axe(page, where):
                            minor.setdefault(one, where)
                        watch.check(where)
                    except (Broken, Error) as error:
                        failures.append(str(error) if isinstance(error, Broken) else f"{where}: {error}")
                        watch.wrong.clear()
                    if shots:
                        page.screenshot(path=shots / f"{name}-{theme}-{size}.png", full_page=False)
                context.close()
        browser.close()
    return failures, minor, count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", required=True, help="address of the node, without a slash at its end")
    parser.add_argument("--login", help="the one-time link of `shoal open`")
    parser.add_argument("--shots", help="folder for the screenshots")
    parser.add_argument("--only", help="only pages whose name, theme or size has this text")
    failures, minor, count = run(parser.parse_args())
    for failure in failures:
        print(failure)
    print(json.dumps({"pages": count, "failures": len(failures), "minor": sorted(minor)}))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
