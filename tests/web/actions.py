"""Presses what can be pressed in the dashboard, in headless Chromium, over a mesh that is there for the test: submits a
configuration by dropping it, waits for its curve, describes, labels, pauses, resumes, cancels, archives and deletes the
experiment, withholds and returns slots, drains and undrains a node, filters and sorts by keyboard, compares two trials, retries
and stops trials, lets a search draw more, reads and downloads files, exports, looks through the calendar, and switches the theme.

usage: actions.py --base http://127.0.0.1:7412 [--login LINK] [--stop COMMAND --start COMMAND]

`--stop` and `--start`: commands of a shell that end the node's server and bring it back; the page has to say that the node does
not answer, keep what it has, and go on by itself. Needs the packages of pages.py."""

import argparse
import re
import subprocess
import sys

from pages import CHROMIUM, Broken, Watch, ask, settle
from playwright.sync_api import expect, sync_playwright

CONFIGURATION = """name: dropped
entrypoint: >-
  for i in $(seq 1 600); do echo "::shoal metric validation loss=0.$((900 - i)) step=$i"; sleep 0.2; done
metrics_from_output: true
hyperparameters: {text: "<img src=x onerror=alert(1)>"}
searcher: {name: single, metric: loss}
"""
LIMIT_MS = 30000
DROP = """text => {
  const files = new DataTransfer();
  files.items.add(new File([text], "dropped.yaml"));
  for (const type of ["dragenter", "dragover", "drop"]) {
    document.body.dispatchEvent(new DragEvent(type, {dataTransfer: files, bubbles: true, cancelable: true}));
  }
}"""


def notice(page, text):
    """Waits for a sentence at the edge of the page, and closes it."""
    line = page.locator(".notice", has_text=text)
    line.wait_for(timeout=LIMIT_MS)
    line.get_by_role("button").click()


def press(page, button, sentence, confirm=None, fields=()):
    """Presses a button of the page, answers its question, and waits for what it says."""
    wanted = page.locator("button", has_text=re.compile(f"^{re.escape(button)}$")).first
    wanted.wait_for(state="attached", timeout=LIMIT_MS)
    if not wanted.is_visible():
        page.locator("summary", has_text="More").first.click()
    wanted.click()
    for label, text in fields:
        page.get_by_role("dialog").get_by_label(label).fill(text)
    if confirm:
        page.get_by_role("dialog").get_by_role("button", name=confirm, exact=True).click()
    notice(page, sentence)


def submit(page, base):
    """A wrong configuration is refused with the daemon's sentences; a good one becomes an experiment."""
    page.goto(f"{base}/#/experiments")
    settle(page)
    page.evaluate(DROP, "name: nothing\n")
    page.get_by_role("dialog").get_by_role("button", name="Submit", exact=True).click()
    notice(page, "entrypoint")
    page.evaluate(DROP, CONFIGURATION)
    page.get_by_role("dialog").get_by_role("button", name="Submit", exact=True).click()
    page.wait_for_url("**/#/experiments/*", timeout=LIMIT_MS)
    identity = page.url.rsplit("/", 1)[1]
    page.get_by_role("heading", name="dropped").wait_for(timeout=LIMIT_MS)
    return identity


def live(page, base, identity):
    """The steps and the log of the running trial come by themselves."""
    page.goto(f"{base}/#/experiments/{identity}/trials/0")
    page.get_by_role("heading", name="validation/loss").wait_for(timeout=LIMIT_MS)
    step = "() => Number(/step ([0-9,]+)/.exec(document.querySelector('.facts').textContent)?.[1].replace(',', '') ?? -1)"
    before = page.evaluate(step)
    page.wait_for_function(f"before => ({step})() > before", arg=before, timeout=LIMIT_MS)
    page.get_by_role("link", name="Logs").click()
    log = page.get_by_role("log")
    expect(log).to_contain_text("::shoal metric validation", timeout=LIMIT_MS)
    lines = log.evaluate("log => log.textContent.length")
    page.wait_for_function("before => document.querySelector('.log').textContent.length > before", arg=lines, timeout=LIMIT_MS)
    page.get_by_role("searchbox").fill("step=3")
    page.get_by_role("searchbox").press("Enter")
    expect(log).not_to_contain_text("step=2 ", timeout=LIMIT_MS)


def change(page, base, identity):
    page.goto(f"{base}/#/experiments/{identity}")
    page.get_by_role("heading", name="dropped").wait_for(timeout=LIMIT_MS)
    press(page, "Describe…", "description is changed", "Save", [("Description", "<b>not bold</b>")])
    page.get_by_text("<b>not bold</b>").wait_for(timeout=LIMIT_MS)
    press(page, "Label…", "label is set", "Set", [("Name", "test"), ("Value", identity)])
    page.get_by_text(f"test={identity}").wait_for(timeout=LIMIT_MS)
    press(page, "Label…", "label is set", "Set", [("Name", "gone"), ("Value", "")])
    press(page, "Remove a label…", "label is removed", "Remove", [("Name", "gone")])
    press(page, "Priority…", "priority is changed", "Save", [("From 1 to 99", "7")])
    page.get_by_text("priority 7").wait_for(timeout=LIMIT_MS)
    press(page, "Pause", "pause")
    page.get_by_role("button", name="Resume", exact=True).wait_for(timeout=LIMIT_MS)
    press(page, "Resume", "goes on")
    page.get_by_role("button", name="Pause", exact=True).wait_for(timeout=LIMIT_MS)
    press(page, "Pin", "pinned")
    press(page, "Unpin", "not pinned")
    press(page, "Cancel", "cancelled", "Cancel it")
    press(page, "Archive", "archived")


def table(page, base, identity):
    """Archived experiments are shown on demand; the filter, the order and the ticks work by keyboard; the rest is deleted."""
    page.goto(f"{base}/#/experiments")
    settle(page)
    page.get_by_role("searchbox").fill(f"labels:test={identity}")
    page.get_by_text("No row matches").wait_for(timeout=LIMIT_MS)
    page.get_by_label("Archived too").check()
    page.get_by_role("link", name="dropped").wait_for(timeout=LIMIT_MS)
    head = page.get_by_role("button", name="Name", exact=True)
    head.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("columnheader", name="Name")).to_have_attribute("aria-sort", "ascending")
    if "filter=labels" not in page.url or "sort=name" not in page.url:
        raise Broken(f"the address does not hold the filter and the order: {page.url}")
    page.reload()
    page.get_by_role("link", name="dropped").wait_for(timeout=LIMIT_MS)
    page.get_by_label("Pick dropped", exact=False).check()
    press(page, "Delete", "deleted", "Delete it")
    page.get_by_text("No row matches").wait_for(timeout=LIMIT_MS)
    if any(one["id"] == identity for one in ask(page, "/experiments")["experiments"]):
        raise Broken("the experiment is still there")


def slots(page, base):
    """A slot goes to its owner and comes back, one by one and all at once: a free one at once, a busy one after a question."""
    page.goto(f"{base}/#/mesh")
    page.get_by_role("button", name="Withhold", exact=True).first.wait_for(timeout=LIMIT_MS)
    page.get_by_role("heading", name="Links of this node").wait_for(timeout=LIMIT_MS)
    page.get_by_role("columnheader", name="Round trip").wait_for(timeout=LIMIT_MS)
    ours = page.locator(".tile", has=page.get_by_role("button", name="Withhold", exact=True))
    free = page.locator(".tile-free", has=page.get_by_role("button", name="Withhold", exact=True))
    is_free = free.count() > 0
    (free if is_free else ours).last.get_by_role("button", name="Withhold", exact=True).click()
    if not is_free:
        page.get_by_role("dialog").get_by_role("button", name="Withhold", exact=True).click()
    notice(page, "is withheld")
    page.get_by_role("button", name="Return", exact=True).first.wait_for(timeout=LIMIT_MS)
    page.get_by_role("button", name="Return", exact=True).first.click()
    notice(page, "is back")
    press(page, "Withhold all", "are withheld", "Withhold")
    expect(page.get_by_role("button", name="Withhold", exact=True)).to_have_count(0, timeout=LIMIT_MS)
    press(page, "Return all", "are back")
    page.get_by_role("button", name="Withhold", exact=True).first.wait_for(timeout=LIMIT_MS)
    for title in ("Drain", "Drain now"):
        press(page, title, "gets no new work" if title == "Drain" else "save and move", title)
        page.get_by_role("button", name="Undrain", exact=True).first.wait_for(timeout=LIMIT_MS)
        press(page, "Undrain", "gets work again")
        page.get_by_role("button", name="Drain", exact=True).first.wait_for(timeout=LIMIT_MS)


def trials(page, base):
    """A failed trial is tried again, a running one stops, a search draws one more."""
    experiments = ask(page, "/experiments")["experiments"]
    failed = next((one for one in experiments if one["trials"]["failed"] > 0), None)
    if failed is not None:
        page.goto(f"{base}/#/experiments/{failed['id']}/trials/0")
        press(page, "Describe…", "note is changed", "Save", [("Note", "<i>odd</i>")])
        page.get_by_text("<i>odd</i>").wait_for(timeout=LIMIT_MS)
        press(page, "Retry", "goes on from its newest checkpoint")
    running = next((one for one in experiments if one["trials"]["running"] > 0 and one["trials"]["total"] == 1), None)
    if running is not None:
        page.goto(f"{base}/#/experiments/{running['id']}/trials/0")
        press(page, "Stop", "saves a checkpoint and stops", "Stop it")
        page.get_by_role("button", name="Retry", exact=True).wait_for(timeout=2 * LIMIT_MS)
        press(page, "Retry", "goes on from its newest checkpoint")
    many = next((one for one in experiments if 1 < one["trials"]["total"] < 1000), None)
    if many is not None:
        page.goto(f"{base}/#/experiments/{many['id']}")
        press(page, "More trials…", "has more trials", "Save", [("All trials together", str(many["trials"]["total"] + 1))])


def download(page, link):
    """The bytes that a link saves."""
    with page.expect_download(timeout=LIMIT_MS) as began:
        link.click()
    return began.value.path().read_bytes()


def exports(page, base):
    """What somebody without an account gets: a page, a table, a drawing, each in one file."""
    one = next((one for one in ask(page, "/experiments")["experiments"] if one["best"]), None)
    if one is None:
        return
    page.goto(f"{base}/#/experiments/{one['id']}")
    for title, begin in (("Export as a page", b"<!doctype html>"), ("Export as a table (CSV)", b"trial,state,"),
                         ("Export the curves (SVG)", b"<?xml")):
        page.locator("summary", has_text="More").first.click()
        content = download(page, page.get_by_role("link", name=title, exact=True))
        if not content.startswith(begin):
            raise Broken(f"{title}: {content[:80]}")


def files(page, base):
    """The pictures, tables and files of a trial that has left some."""
    for one in ask(page, "/experiments")["experiments"]:
        address = f"/experiments/{one['id']}/trials/0"
        if one["state"] == "completed" and "outputs" in ask(page, f"{address}/outputs"):
            break
    else:
        return
    page.goto(f"{base}/#{address}?view=files")
    picture = page.locator(".pictures img").first
    picture.wait_for(timeout=LIMIT_MS)
    page.wait_for_function("() => [...document.querySelectorAll('.pictures img')].some(one => one.complete && one.naturalWidth > 0)",
                           timeout=LIMIT_MS)
    page.get_by_role("button", name="Show output/table.csv").click()
    page.locator(".panel", has=page.get_by_role("button", name="Close")).get_by_role("cell", name="2").wait_for(timeout=LIMIT_MS)
    page.get_by_role("button", name="Close").click()
    content = download(page, page.get_by_role("link", name="Download output/table.csv"))
    if content != b"a,b\n1,2\n":
        raise Broken(f"the file that was downloaded is {content}")


def calendar(page, base):
    """Windows of other lengths and times, and a bar that leads to its trial."""
    page.goto(f"{base}/#/calendar")
    settle(page)
    page.get_by_role("button", name="1 hour").click()
    expect(page.get_by_role("button", name="1 hour")).to_have_attribute("aria-pressed", "true")
    page.locator("tbody tr").first.wait_for(timeout=LIMIT_MS)
    page.get_by_role("button", name="Earlier").click()
    page.wait_for_function("() => location.hash.includes('until=')", timeout=LIMIT_MS)
    page.get_by_role("button", name="Now").click()
    expect(page.get_by_role("button", name="Later")).to_be_disabled(timeout=LIMIT_MS)
    if "span=hour" not in page.url or "until" in page.url:
        raise Broken(f"the address does not hold the window: {page.url}")
    page.locator("tbody tr").first.get_by_role("link").click()
    page.wait_for_url("**/#/experiments/*", timeout=LIMIT_MS)


def theme(page, base):
    page.goto(f"{base}/#/settings")
    page.get_by_label("Dark").check()
    dark = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    page.get_by_label("Light").check()
    if page.evaluate("() => getComputedStyle(document.body).backgroundColor") == dark:
        raise Broken("the theme stays the same")
    page.get_by_label("As the system has it").check()


def compare(page, base):
    """Two trials picked in a table stand side by side."""
    many = next((one for one in ask(page, "/experiments")["experiments"] if one["trials"]["total"] > 1), None)
    if many is None:
        return
    page.goto(f"{base}/#/experiments/{many['id']}")
    page.get_by_label("Pick 0", exact=True).check()
    page.get_by_label("Pick 1", exact=True).check()
    page.get_by_role("link", name="Compare 2").click()
    expect(page.get_by_role("columnheader", name="/0")).to_be_visible(timeout=LIMIT_MS)
    page.get_by_role("button", name="Remove").first.click()
    expect(page.get_by_role("columnheader", name="/0")).to_have_count(0, timeout=LIMIT_MS)


def away(page, base, stop, start):
    """The node goes and comes back under an open page."""
    page.goto(f"{base}/#/experiments")
    settle(page)
    rows = page.locator("tbody tr").count()
    subprocess.run(stop, shell=True, check=True)
    page.get_by_text("has not answered since").first.wait_for(timeout=LIMIT_MS)
    if page.locator("tbody tr").count() != rows:
        raise Broken("the table is not what the node said last")
    subprocess.run(start, shell=True, check=True)
    page.get_by_text("has not answered since").first.wait_for(state="detached", timeout=2 * LIMIT_MS)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", required=True, help="address of the node, without a slash at its end")
    parser.add_argument("--login", help="the one-time link of `shoal open`")
    parser.add_argument("--stop", help="command that ends the server of the node")
    parser.add_argument("--start", help="command that starts it again")
    arguments = parser.parse_args()
    base = arguments.base
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        watch = Watch(context, base)
        page = context.new_page()
        page.goto(arguments.login or base)
        settle(page)
        identity = submit(page, base)
        live(page, base, identity)
        change(page, base, identity)
        table(page, base, identity)
        slots(page, base)
        calendar(page, base)
        files(page, base)
        exports(page, base)
        trials(page, base)
        theme(page, base)
        compare(page, base)
        if arguments.stop and arguments.start:
            away(page, base, arguments.stop, arguments.start)
        watch.check("actions")
        browser.close()
    print("every action did what it says")
    return 0


if __name__ == "__main__":
    sys.exit(main())
