"""Makes the picture of the README: a search on three daemons of this machine that has finished, in the dashboard of one.

usage: readme.py [--build release] PNG

Then, with the packages of pages.py: readme.py --base ADDRESS --login LINK --experiment ID PNG (what the first form does)."""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONFIG = {"name": "fashion-mlp", "description": "How wide, how fast: a small network on Fashion-MNIST", "entrypoint": "shoal-train mlp",
          "hyperparameters": {"hidden": {"type": "categorical", "vals": [16, 32, 64]},
                              "learning_rate": {"type": "log", "base": 10, "minval": -3, "maxval": -0.5},
                              "momentum": {"type": "double", "minval": 0.5, "maxval": 0.9}, "batch_size": 128, "epochs": 10},
          "searcher": {"name": "random", "metric": "accuracy", "smaller_is_better": False, "max_trials": 12}}


def search(build, png):
    sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/e2e")]
    from door import python_with
    from mesh import Mesh

    python = python_with("web-venv", "playwright==1.65.2", "axe-playwright-python==0.1.8")
    with tempfile.TemporaryDirectory(prefix="shoal-readme-") as base:
        mesh = Mesh(Path(base), ["alder", "birch", "cedar"], build=build, slots="cpu:2", options=["--http", "127.0.0.1:0"])
        try:
            node = mesh.start().nodes[0]
            file = node.tree / "experiment.yaml"
            file.write_text(json.dumps(CONFIG))
            experiment = node.run("submit", file).split()[-1]
            node.run("wait", experiment, timeout=900)
            link = node.json("open")["url"]
            while "code=" not in link:  # the door has just begun
                time.sleep(0.2)
                link = node.json("open")["url"]
            subprocess.run([python, __file__, "--base", link.split("/login")[0], "--login", link, "--experiment", experiment, png], check=True)
        finally:
            mesh.end()


def take(base, login, experiment, png):
    from pages import CHROMIUM, settle
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_context(viewport={"width": 1180, "height": 800}, reduced_motion="reduce").new_page()
        page.goto(login)
        settle(page)
        page.goto(f"{base}/#/experiments/{experiment}?sort=metric&down=1")
        settle(page)
        page.locator(".legend li").nth(7).wait_for(timeout=60000)
        settle(page)
        page.screenshot(path=png)
        browser.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="release", help="folder below build/")
    for name in ("base", "login", "experiment"):
        parser.add_argument(f"--{name}")
    parser.add_argument("png")
    arguments = parser.parse_args()
    if arguments.base:
        take(arguments.base, arguments.login, arguments.experiment, arguments.png)
    else:
        search(arguments.build, arguments.png)


if __name__ == "__main__":
    main()
