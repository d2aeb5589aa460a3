"""The script of warm processes (node/daemon/workers/warm.py): which imports it does before a trial, and what makes it give up."""

import ast
import importlib.util
import os
import socket
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent.parent / "node" / "daemon" / "workers" / "warm.py"


def load():
    spec = importlib.util.spec_from_file_location("warm", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    path = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = path
    return module


warm = load()


class Script(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.work = Path(os.path.realpath(place.name)) / "work"
        self.packages = self.work.parent / "packages"
        self.sockets = []
        self.packages.mkdir()
        self.work.mkdir()

    def write(self, **files):
        for name, text in files.items():
            path = self.work / (name.replace("__", "/").replace("/INIT", "/__init__") + ".py")
            path.parent.mkdir(exist_ok=True)
            path.write_text(textwrap.dedent(text))

    def found(self, **files):
        self.write(**files)
        imports = warm.Imports([str(self.work)])
        imports.script(str(self.work / "train.py"))
        return [name for name, _, _ in imports.found]

    def answer(self, *arguments, script="train.py"):
        """What the process tells the daemon, and the process."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        script_file = os.open(SCRIPT, os.O_RDONLY)
        output = open(self.work.parent / "output", "w+")
        self.addCleanup(output.close)

        def place():
            for to, fd in ((23, theirs.fileno()), (24, script_file)):
                os.dup2(fd, to)
            os.dup2(23, 3)
            os.dup2(24, 4)

        process = subprocess.Popen([sys.executable, *arguments, "/proc/self/fd/4", " " * 200], cwd=self.work, preexec_fn=place,
                                   pass_fds=(3, 4), stdout=output, stderr=output, stdin=subprocess.DEVNULL,
                                   env={"PYTHONPATH": str(self.packages), "SHOAL_WARM_ROOM": "0" * 48, "PATH": os.environ["PATH"]})
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(ours.close)
        self.sockets.append(ours)
        theirs.close()
        os.close(script_file)
        ours.send(b"\0".join(os.fsencode(each) for each in ("/bin/false", self.work, *script.split())))
        text = ours.recv(1000).decode()
        output.seek(0)
        return text, process, output.read()

    def test_the_imports_of_a_program_and_its_modules_come_in_their_order(self):
        found = self.found(train="""
            '''What it does.'''
            from __future__ import annotations
            import numpy as np, os.path
            from torch import nn, optim
            import model
            from parts.data import load
            from parts import more
            import json
            LIMIT = os.path.join("a", "b")
            def main():
                import later
            class Model(nn.Module):
                import inside
            if __name__ == "__main__":
                import only_then
            import behind
            """, model="import decimal\nimport train\n", parts__INIT="import fractions", parts__data="from . import deeper\nimport csv",
                           parts__deeper="import bz2", parts__more="import lzma")
        self.assertEqual(found, ["__future__", "numpy", "os.path", "torch", "decimal", "fractions", "bz2", "csv", "lzma", "json", "behind"])

    def test_imports_behind_what_may_change_them_are_left_to_the_trials(self):
        for change in ("os.environ['OMP_NUM_THREADS'] = '1'", "os.putenv('A', 'b')", "sys.path.insert(0, 'x')", "environ.update(A='b')",
                       "sys.modules.pop('torch')", "if True:\n    os.environ.setdefault('A', 'b')"):
            found = self.found(train=f"import os, sys\n{change}\nimport torch\n")
            self.assertEqual(found, ["os", "sys"], change)
        self.assertEqual(self.found(train="import os\nimport model\nimport torch\n", model="import os\nos.environ['A'] = 'b'\n"), ["os", "os"])
        self.assertEqual(self.found(train="import torch\nHERE = os.path.abspath('.')\nimport numpy\n"), ["torch", "numpy"])

    def test_a_program_that_is_none_has_no_imports(self):
        self.assertEqual(self.found(train="import torch\nsyntax error\n"), [])
        self.assertEqual(self.found(train="import torch\nimport broken\nimport numpy\n", broken="a b"), ["torch"])

    def test_an_import_that_may_fail_does_not_make_trials_cold(self):
        self.write(train="try:\n    import broken\nexcept Exception:\n    pass\nimport nowhere\n")
        (self.packages / "broken.py").write_text("1 / 0\n")
        self.assertEqual(self.answer()[0], "ready")

    def test_what_a_fork_would_not_take_along_makes_trials_cold(self):
        for text, why in (
                ("import threading, time\nthreading.Thread(target=time.sleep, args=(9,), name='beat', daemon=True).start()", "a thread (beat)"),
                ("import socket\nKEPT = socket.socket()", "opened a socket"),
                ("import os\nKEPT = os.pipe()", "opened a pipe"),
                ("import select\nKEPT = select.epoll()", "opened a queue of events"),
                ("import subprocess\nKEPT = subprocess.Popen(['sleep', '9'])", "started a process"),
                ("1 / 0", "the import of needed has failed (ZeroDivisionError: division by zero)"),
                ("raise SystemExit(3)", "the import of needed ends the program")):
            self.write(train="import needed\n")
            (self.packages / "needed.py").write_text(text)
            answer, process, output = self.answer()
            self.assertTrue(answer.startswith("cold ") and why in answer, f"{text}: {answer} {output}")
            self.assertEqual(process.wait(10), 0)

    def test_a_process_whose_daemon_is_gone_ends(self):
        self.write(train="import decimal\n")
        answer, process, output = self.answer("-O", "-X", "dev")
        self.assertEqual(answer, "ready", output)
        title = Path(f"/proc/{process.pid}/cmdline").read_bytes().rstrip(b"\0")
        self.assertEqual(title, b"shoal: warm train.py")
        self.sockets.pop().close()
        self.assertEqual(process.wait(10), 0)

    def test_the_script_reads_on_the_oldest_python_that_workers_have(self):
        ast.parse(SCRIPT.read_text(), feature_version=(3, 8))


if __name__ == "__main__":
    unittest.main()
