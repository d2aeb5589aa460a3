"""Makes the packages of a worker ready: a virtual environment for a requirements file, shared by all workers that want the same.

    python3 packages.py DIRECTORY RUN FILE

Runs on the interpreter of the environment, in the worker's copy of the code. DIRECTORY has the environments, RUN is the worker's
directory, which gets a link `packages` to the environment, and FILE is the requirements file. Workers whose link leads to an
environment use it; all others are removed when nobody has used them for UNUSED_S, or at once when the disk is short."""

import os
import sys

# The program's own files, such as a logging.py, are no part of the standard library.
sys.path[:] = [entry for entry in sys.path if entry not in ("", os.getcwd())]

import contextlib
import fcntl
import glob
import hashlib
import importlib.util
import re
import shutil
import subprocess
import time
import venv

WHOLE = "shoal-whole"  # the file in an environment that is complete; its time is that of the last use
UNUSED_S = 14 * 86400
FREE_SHARE = 0.1  # with less of the disk free it is short
PIP_FOREIGN = ("PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PYTHONPATH", "PYTHONHOME")  # would lead pip out of the environment
INCLUDES = re.compile(r"^[ \t]*(?:-[rc][ \t]*|--(?:requirement|constraint)(?:[ \t]+|[ \t]*=[ \t]*))(\S+)", re.MULTILINE)
RUN_PIP = ("import sys; sys.path[:] = [entry for entry in sys.path if entry]; import runpy;"  # as `-m pip`, but not from here
           " runpy.run_module('pip', run_name='__main__', alter_sys=True)")


def included(requirements, place, seen):
    """The bytes of the files that a requirements file in the directory `place` includes (-r, -c), and of those that they include.
    What cannot be read is pip's to say."""
    text = requirements.decode("utf-8", "replace").replace("\\\n", " ")
    for name in INCLUDES.findall(text):
        path = os.path.realpath(os.path.join(place, name))
        if path in seen:
            continue
        seen.add(path)
        with contextlib.suppress(OSError):
            with open(path, "rb") as file:
                inner = file.read()
            yield inner
            yield from included(inner, os.path.dirname(path), seen)


def environment_name(requirements, file):
    """The name of the environment for these bytes of a file and those of the files that it includes, this interpreter, and what
    the program's variables tell pip. Other packages never get the same name."""
    parts = [requirements, sys.executable.encode(), sys.version.split()[0].encode()]
    parts += included(requirements, os.path.dirname(file), {os.path.realpath(file)})
    parts += [os.fsencode(name + "=" + value) for name, value in sorted(os.environ.items())
              if name.startswith("PIP_") and name not in PIP_FOREIGN]
    whole = hashlib.sha256()
    for part in parts:
        whole.update(b"%d:" % len(part) + part)
    return whole.hexdigest()[:32]


def in_use(runs):
    found = set()
    for link in glob.glob(os.path.join(glob.escape(runs), "*", "packages")):
        with contextlib.suppress(OSError):  # of a worker that is removed meanwhile
            found.add(os.readlink(link))
    return found


def is_whole(path):
    return os.path.exists(os.path.join(path, WHOLE)) and os.path.exists(os.path.join(path, "bin", "python"))


def used_at(path):
    marker = os.path.join(path, WHOLE)
    return os.path.getmtime(marker if os.path.exists(marker) else path)


def disk_is_short(directory):
    usage = shutil.disk_usage(directory)
    return usage.free < FREE_SHARE * usage.total


def remove_unused(directory, runs, own, is_short):
    """Removes what nobody needs, but never `own`. One that is just being made is locked, and stays."""
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        if name == own or not os.path.isdir(path) or path in in_use(runs):
            continue
        with contextlib.suppress(OSError):  # another worker removes it or has locked it, or the disk is full
            if not is_short and time.time() - used_at(path) < UNUSED_S:
                continue
            with open(path + ".lock", "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if path not in in_use(runs):
                    shutil.rmtree(path, ignore_errors=True)


def add_parent(path):
    """If the interpreter is itself one of a virtual environment, its packages are seen too."""
    if sys.prefix == sys.base_prefix:
        return
    own = [entry for entry in sys.path if entry.startswith(sys.prefix + os.sep) and entry.endswith("-packages")]
    where = os.path.join(path, "lib", "python%d.%d" % sys.version_info[:2], "site-packages")
    with open(os.path.join(where, "shoal-parent.pth"), "w") as file:
        file.write("".join(entry + "\n" for entry in own))


def install(path, file):
    """Makes the environment. It sees the interpreter's packages, so that pip fetches only what these do not satisfy. Returns a
    sentence, or None."""
    has_pip = importlib.util.find_spec("pip") is not None
    if not has_pip and importlib.util.find_spec("ensurepip") is None:
        return "%s has neither pip nor ensurepip; install pip for it on this machine" % sys.executable
    shutil.rmtree(path, ignore_errors=True)
    try:
        venv.EnvBuilder(system_site_packages=True, symlinks=True, with_pip=not has_pip).create(path)
        add_parent(path)
    except (OSError, subprocess.CalledProcessError) as error:
        return "a virtual environment cannot be made in %s: %s" % (path, error)
    variables = {name: value for name, value in os.environ.items() if name not in PIP_FOREIGN}
    variables.update(PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_NO_INPUT="1", VIRTUAL_ENV=path)
    pip = [os.path.join(path, "bin", "python"), "-c", RUN_PIP, "install", "--progress-bar", "off", "-r", file]
    status = subprocess.call(pip, env=variables)
    if status != 0:
        return "pip cannot install what %s names (its lines are above); correct the file, or this machine's access to the packages" % file
    with open(os.path.join(path, WHOLE), "w"):
        pass
    return None


def take_lock(lock, file):
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        print("shoal: another worker makes the packages of %s ready" % file, flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)


def make_ready(directory, run, file):
    """Returns a sentence that says why the packages are not ready, or None."""
    try:
        with open(file, "rb") as opened:
            requirements = opened.read()
    except OSError as error:
        return "the requirements file %s cannot be read: %s; is it in the context directory?" % (file, error.strerror)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    name = environment_name(requirements, file)
    path = os.path.join(directory, name)
    runs = os.path.dirname(run)
    with open(path + ".lock", "w") as lock:
        take_lock(lock, file)
        if is_whole(path):
            os.utime(os.path.join(path, WHOLE))
        else:
            remove_unused(directory, runs, name, disk_is_short(directory))
            print("shoal: makes the packages of %s ready" % file, flush=True)
            why = install(path, file)
            if why is not None:
                shutil.rmtree(path, ignore_errors=True)
                return why
        os.symlink(path, os.path.join(run, "packages"))
    return None


def main():
    try:
        why = make_ready(*sys.argv[1:4])
    except OSError as error:
        why = "the packages of %s cannot be made ready in %s: %s; is the disk full?" % (sys.argv[3], sys.argv[1], error)
    if why is not None:
        print("shoal: " + why, flush=True)
    return 0 if why is None else 1


if __name__ == "__main__":
    sys.exit(main())
