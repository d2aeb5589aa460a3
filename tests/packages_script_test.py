"""The script that makes the packages of a worker ready: what is in its way ends as one sentence, or is passed over."""

import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

SCRIPT = Path(__file__).resolve().parent.parent / "node" / "daemon" / "workers" / "packages.py"


def load():
    spec = importlib.util.spec_from_file_location("packages_script", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    with mock.patch.object(sys, "path", list(sys.path)):
        spec.loader.exec_module(module)
    return module


packages = load()


class Script(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = Path(place.name)
        self.environments, self.runs, self.work = (self.place / name for name in ("packages", "runs", "work"))
        for path in (self.environments, self.runs / "0", self.work):
            path.mkdir(parents=True)

    def run_script(self, directory, file):
        command = [sys.executable, "-B", "-c", SCRIPT.read_text(), str(directory), str(self.runs / "0"), file]
        return subprocess.run(command, cwd=self.work, capture_output=True, text=True, check=False)

    def environment(self, name, used_s):
        marker = self.environments / name / packages.WHOLE
        marker.parent.mkdir()
        marker.touch()
        os.utime(marker, (used_s, used_s))

    def test_a_module_of_the_program_hides_no_standard_one(self):
        for name in ("logging", "runpy", "venv"):
            (self.work / f"{name}.py").write_text("raise ImportError('a module of the program')\n")
        done = self.run_script(self.environments, "missing.txt")
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        self.assertIn("the requirements file missing.txt cannot be read", done.stdout)
        version = subprocess.run([sys.executable, "-c", packages.RUN_PIP, "--version"], cwd=self.work, capture_output=True,
                                 text=True, check=False)
        self.assertNotIn("a module of the program", version.stderr)

    def test_a_directory_that_cannot_be_made_is_one_sentence(self):
        (self.work / "requirements.txt").write_text("")
        (self.place / "file").touch()
        done = self.run_script(self.place / "file" / "packages", "requirements.txt")
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        self.assertRegex(done.stdout, r"^shoal: the packages of requirements.txt cannot be made ready in .*Not a directory.*\n$")

    def test_a_worker_that_goes_meanwhile_is_passed_over(self):
        for name in ("1", "2"):
            (self.runs / name).mkdir()
            (self.runs / name / "packages").symlink_to(self.environments / name)
        whole = os.readlink

        def readlink(path):
            if os.path.dirname(path) == str(self.runs / "1"):
                os.unlink(path)
            return whole(path)

        with mock.patch.object(os, "readlink", readlink):
            self.assertEqual(packages.in_use(str(self.runs)), {str(self.environments / "2")})

    def name_of(self, text, **variables):
        with mock.patch.dict(os.environ, variables):
            return packages.environment_name(text.encode(), str(self.work / "requirements" / "all.txt"))

    def test_other_packages_are_another_environment(self):
        """Files that the file includes, and variables, decide about packages; with the same ones it is the same environment."""
        (self.work / "requirements").mkdir()
        names = ["requirements/base.txt", "requirements/deep.txt", "pins.txt", "more.txt"]
        for name in names:
            (self.work / name).write_text("")
        (self.work / "requirements/base.txt").write_text("-rdeep.txt\n-r base.txt\n-r all.txt  # themselves\n")
        text = "numpy\n--requirement=base.txt\n  -c ../pins.txt\n--constraint ../more.txt\n-r absent.txt\n"
        found = [self.name_of(text)]
        for name in names:
            with open(self.work / name, "a") as file:
                file.write("# changed\n")
            found.append(self.name_of(text))
        self.assertEqual(self.name_of(text, PIP_USER="1", HOME="/elsewhere"), found[-1])
        found += [self.name_of(text + "more\n"), self.name_of(text, PIP_INDEX_URL="https://packages.example/simple")]
        self.assertEqual(len(set(found)), len(found), found)

    def test_old_ones_are_removed_though_another_goes_meanwhile(self):
        for name in ("gone", "old"):
            self.environment(name, 1)
        whole = packages.used_at

        def used_at(path):
            if path.endswith("gone"):
                raise FileNotFoundError(path)
            return whole(path)

        with mock.patch.object(packages, "used_at", used_at):
            packages.remove_unused(str(self.environments), str(self.runs), "own", False)
        self.assertEqual(sorted(path.name for path in self.environments.iterdir() if path.is_dir()), ["gone"])


if __name__ == "__main__":
    unittest.main()
