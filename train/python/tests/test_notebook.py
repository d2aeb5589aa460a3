"""The program of a notebook: when it ends, where it works, and what JupyterLab is started with."""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import support  # noqa: F401  # puts the package on the path

from shoal import _notebook

FAKE = """#!{python}
import json, os, sys
json.dump({{"argv": sys.argv, "environment": dict(os.environ)}}, open("started.json", "w"))
"""


def said(function):
    heard = io.StringIO()
    with contextlib.redirect_stdout(heard):
        result = function()
    return result, heard.getvalue()


class Idle(unittest.TestCase):
    def test_it_warns_once_and_ends_when_nobody_has_used_it(self):
        idleness = _notebook.Idleness(3600, now=0)
        self.assertEqual(said(lambda: idleness.look(0, 3299)), (False, ""))
        result, text = said(lambda: idleness.look(0, 3300))
        self.assertFalse(result)
        wanted = "nobody has used it for 55 min; in 5 min it ends and gives its slot back, unless a cell is run"
        self.assertEqual(text, f"notebook: {wanted}\n")
        self.assertEqual(said(lambda: idleness.look(0, 3500)), (False, ""))
        self.assertTrue(idleness.look(0, 3600))

    def test_use_after_the_warning_is_noticed(self):
        idleness = _notebook.Idleness(3600, now=0)
        said(lambda: idleness.look(0, 3400))
        self.assertEqual(said(lambda: idleness.look(3450, 3460)), (False, "notebook: it is used again\n"))
        self.assertFalse(said(lambda: idleness.look(3450, 7000))[0])
        self.assertTrue(idleness.look(3450, 7050))

    def test_zero_means_never(self):
        self.assertFalse(_notebook.Idleness(0, now=0).look(0, 1e9))

    def test_times_are_words(self):
        self.assertEqual([_notebook.span(n) for n in (8, 90, 3600, 5400)], ["8 s", "1.5 min", "1 h", "1.5 h"])


class Work(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.place = Path(directory.name)

    def test_code_is_copied_to_an_empty_directory_only(self):
        code, root = self.place / "code", self.place / "root"
        (code / "package").mkdir(parents=True)
        (code / "package" / "a.py").write_text("1")
        (code / "b.py").write_text("2")
        (code / "link").symlink_to("b.py")
        _notebook.fill(root, code)
        self.assertEqual((root / "package" / "a.py").read_text(), "1")
        self.assertTrue((root / "link").is_symlink())
        (root / "b.py").write_text("changed")
        _notebook.fill(root, code)
        self.assertEqual((root / "b.py").read_text(), "changed")

    def test_the_server_gets_the_token_by_its_environment_and_is_no_rank(self):
        program = self.place / "jupyter"
        program.write_text(FAKE.format(python=sys.executable))
        program.chmod(0o755)
        with mock.patch.dict(os.environ, {"RANK": "0", "WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": "x", "SHOAL_TRIAL": "0"}):
            server = _notebook.Server([str(program), "lab"], self.place, self.place)
        self.assertEqual(server.process.wait(20), 0)
        started = json.loads((self.place / "started.json").read_text())
        self.assertEqual(started["environment"]["JUPYTER_TOKEN"], server.token)
        self.assertNotIn(server.token, " ".join(started["argv"]))
        self.assertIn(f"--ServerApp.port={server.port}", started["argv"])
        self.assertIn("--ServerApp.ip=127.0.0.1", started["argv"])
        self.assertEqual(started["environment"]["SHOAL_TRIAL"], "0")
        for name in ("RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID"):
            self.assertNotIn(name, started["environment"])
        self.assertFalse(server.wait_ready())
        self.assertIsNone(server.get("/api"))

    def test_a_kernel_that_computes_and_a_saved_file_count_as_use(self):
        server = _notebook.Server.__new__(_notebook.Server)
        server.root = self.place
        with mock.patch.object(server, "get", lambda path: [{"execution_state": "busy"}] if path == "/api/kernels" else None):
            self.assertGreater(server.used_at(), 1e9)
        kernel = {"execution_state": "idle", "last_activity": "2026-01-02T03:04:05.000006Z"}
        with mock.patch.object(server, "get", lambda path: [kernel] if path == "/api/kernels" else None):
            self.assertEqual(int(server.used_at()), 1767323045)
            (self.place / "saved").write_text("x")
            os.utime(self.place / "saved", (1767400000, 1767400000))
            self.assertEqual(server.used_at(), 1767400000)

    def test_the_place_is_for_this_account_alone(self):
        path = self.place / "notebook.json"
        _notebook.write_place(path, 8888, "secret")
        self.assertEqual(json.loads(path.read_text()), {"port": 8888, "token": "secret"})
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)


if __name__ == "__main__":
    unittest.main()
