"""Programs of older commits, each built once into the build directory, for cases in which two versions meet."""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

from lab import Skip

ROOT = Path(__file__).resolve().parents[2]
LAST = "ab23e03e13a0048dc931dd142e67271dc4bd208f"  # the one that labs update from
BEFORE_LARGE = "16d2cc636c5807705aef4e8a45b86e5f8265132e"  # cannot read configurations that are larger than a record
PROGRAMS = ("shoald", "shoal", "shoal-keep", "shoal-train")

# BEFORE_LARGE asks for msgpack by the name that Debian 12 has; this is what Debian 13 has, under that name.
MSGPACK_MODULE = "Name: msgpack\nDescription: msgpack-c\nVersion: 6.0.1\nLibs: -lmsgpack-c\n"


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, check=False, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr.decode(errors='replace').strip()[-400:]}")
    return done.stdout


def build_into(directory, commit):
    source, module = directory / "source", directory / "pkgconfig"
    shutil.rmtree(directory, ignore_errors=True)
    source.mkdir(parents=True)
    module.mkdir()
    environment = dict(os.environ)
    if subprocess.run(["pkg-config", "--exists", "msgpack"], check=False).returncode != 0:
        (module / "msgpack.pc").write_text(MSGPACK_MODULE)
        environment["PKG_CONFIG_PATH"] = str(module)
    archive = run("git", "-C", ROOT, "archive", commit)
    run("tar", "-x", "-C", source, input=archive)
    run("cmake", "-S", source, "-B", directory / "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo", env=environment)
    run("cmake", "--build", directory / "build", "-j", "2", "--target", *PROGRAMS)


def older_build(commit=LAST):
    """The directory with the commit's programs. Raises Skip where the clone is too shallow to have the commit."""
    if subprocess.run(["git", "-C", ROOT, "cat-file", "-e", f"{commit}^{{commit}}"], capture_output=True, check=False).returncode != 0:
        raise Skip(f"this clone does not have commit {commit[:12]}: git fetch --unshallow brings it")
    directory = ROOT / "build" / f"older-{commit[:12]}"
    directory.parent.mkdir(exist_ok=True)
    with open(f"{directory}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (directory / "is-built").exists():
            build_into(directory, commit)
            (directory / "is-built").touch()
    return directory / "build"
