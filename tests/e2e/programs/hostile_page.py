"""A browser that is logged in at the door opens what a notebook serves. usage: DOOR_LINK NOTEBOOK_URL; prints what the page got."""

import json
import sys

from playwright.sync_api import sync_playwright

TRY = """async door => {
    const got = {cookie: document.cookie};
    for (const mode of ["cors", "no-cors"]) {
        try {
            const answer = await fetch(door + "/api/v1/status", {mode, credentials: "include"});
            got[mode] = answer.type + " " + answer.status + " " + await answer.text();
        } catch (error) { got[mode] = "refused: " + error; }
    }
    return got;
}"""

link, url = sys.argv[1:]
door = "/".join(link.split("/")[:3])
with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
    context = browser.new_context()
    page = context.new_page()
    page.goto(link)
    inside = page.evaluate("async () => (await fetch('/api/v1/status')).status")
    cookies = [cookie["name"] for cookie in context.cookies()]
    page.goto(url)
    got = page.evaluate(TRY, door)
    print(json.dumps({"inside": inside, "cookies": cookies, "sent": json.loads(page.inner_text("body"))["headers"], "got": got}))
    browser.close()
