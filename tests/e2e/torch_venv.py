"""A virtual environment with PyTorch from PyPI, made once and kept under build/ for later runs."""

import fcntl
import subprocess

from lab import Skip
from mesh import ROOT

TORCH = "torch==2.13.0"  # first and by itself: what other packages ask for would bring CUDA along


def python_with(*packages, limit_s=540):
    """The interpreter of the environment, with PyTorch and these packages (as pip names them). Raises Skip without a network, or
    without python3-venv."""
    directory = ROOT / "build" / "torch-venv"
    python = directory / "bin" / "python"
    directory.parent.mkdir(exist_ok=True)
    with open(directory.parent / "torch-venv.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = [["/usr/bin/python3", "-m", "venv", directory]] if not python.exists() else []
        for wanted in (TORCH, *packages):
            mark = directory / f"has-{wanted}"
            if not mark.exists():
                made.append([python, "-m", "pip", "install", "-q", wanted])
        for command in made:
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s)
            if done.returncode != 0:
                raise Skip(f"{command[-1]} cannot be had: {done.stderr.strip().splitlines()[-1:]}")
            if "pip" in command:
                (directory / f"has-{command[-1]}").touch()
    return str(python)
