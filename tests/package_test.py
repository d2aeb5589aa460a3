"""The Debian package: made from a build directory, unpacked, and used where it lies. usage: package_test.py BUILD_DIR"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
from mesh import Mesh, wait_until  # noqa: E402

WANTED = """
    usr/bin/shoal usr/bin/shoald usr/bin/shoal-train usr/libexec/shoal/shoal-keep
    usr/lib/*/libshoal.so usr/lib/*/libshoal.so.0 usr/lib/*/pkgconfig/shoal.pc usr/include/shoal/shoal.h
    usr/share/man/man1/shoal.1.gz usr/share/man/man1/shoal-train.1.gz usr/share/man/man8/shoald.8.gz usr/share/man/man8/shoal-keep.8.gz
    usr/share/man/man5/shoal-config.5.gz
    usr/share/bash-completion/completions/shoal usr/share/bash-completion/completions/shoald
    usr/share/zsh/vendor-completions/_shoal usr/share/fish/vendor_completions.d/shoal.fish
    usr/share/fish/vendor_completions.d/shoald.fish usr/lib/systemd/system/shoald@.service usr/lib/systemd/user/shoald.service
    usr/share/doc/shoal/copyright usr/share/shoal/examples/mlp-fashion/random.yaml
    """.split()

PROGRAM = """
#include <shoal.h>
#include <base/err.h>
#include <stdio.h>
int main(void)
{
    struct shoal *shoal;
    char error[SHOAL_ERROR_BYTES];
    int code = shoal_open(&shoal, error);
    printf("%d %d\\n", code, code == ERR_CLOSED);
    shoal_close(&shoal);
    return code;
}
"""


def run(*words, **options):
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=120, **options)
    if done.returncode != 0:
        raise SystemExit(f"FAILED {' '.join(map(str, words))}: {done.stdout}{done.stderr}")
    return done.stdout


def check(condition, text):
    if not condition:
        raise SystemExit(f"FAILED {text}")


def check_contents(tree, file):
    owners = {line.split()[1] for line in run("dpkg-deb", "-c", file).splitlines()}
    check(owners == {"root/root"}, f"files belong to {owners}")
    for pattern in WANTED:
        check(list(tree.glob(pattern)), f"the package has no {pattern}")
    for name in ("shoal", "shoald", "shoal-train", "shoal-config"):
        page = next(tree.glob(f"usr/share/man/man?/{name}.?.gz"))
        check("\n.SH NAME\n" in run("gzip", "-dc", page), f"{page} is no manual page")
    fields = dict(re.findall(r"^(\S+): (.*)$", run("dpkg-deb", "-f", file), re.MULTILINE))
    check(re.match(r"libc6 \(>= 2\.\d+\)", next(d for d in fields["Depends"].split(", ") if d.startswith("libc6"))), fields["Depends"])
    check("libarchive13t64 | libarchive13" in fields["Depends"] and "libssl3t64 | libssl3" in fields["Depends"], fields["Depends"])
    check("libmsgpack" not in fields["Depends"] or not Path("/etc/debian_version").read_text().startswith("12"),
          "built on Debian 12 it needs a library that 13 has not")
    library = next(tree.glob("usr/lib/*/libshoal.so.0"))
    check("SONAME               libshoal.so.0" in run("objdump", "-p", library), "libshoal has no soname")


def check_scripts(tree):
    for script in ("postinst", "prerm", "postrm"):
        run("sh", "-n", tree / "DEBIAN" / script)
    for name in ("shoal", "shoald"):
        path = tree / f"usr/share/bash-completion/completions/{name}"
        said = run("bash", "-c", f". {path}; complete -p {name}")
        check(f"_{name}" in said, f"{path} completes nothing: {said}")


def check_units(build, here):
    """systemd-analyze asks that the program is where the unit says, so the units are those of an installation somewhere else."""
    if shutil.which("systemd-analyze") is None:
        return
    prefix = here / "prefix"
    run("cmake", "--install", build, "--prefix", prefix)
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(here), "HOME": str(here)}
    shutil.copy(prefix / "lib/systemd/system/shoald@.service", here)
    instance = here / "shoald@daemon.service"
    instance.symlink_to("shoald@.service")
    for words in (["verify", "--man=no", instance], ["--user", "verify", "--man=no", prefix / "lib/systemd/user/shoald.service"]):
        done = subprocess.run(["systemd-analyze", *map(str, words)], capture_output=True, text=True, timeout=60, env=environment)
        about_ours = [line for line in done.stderr.splitlines() if "shoald" in line]
        check(done.returncode == 0 and not about_ours, f"systemd-analyze {words[0]}: {done.stderr}")
    for unit in (here / "shoald@.service", prefix / "lib/systemd/user/shoald.service"):
        text = unit.read_text()
        check(all(line in text for line in ("KillMode=process", "OOMPolicy=continue", f"ExecStart={prefix}/bin/shoald ")), f"{unit}: {text}")


def check_library(tree, here):
    """A program is built with what pkg-config says, and runs."""
    source, program, libraries = here / "user.c", here / "user", next(tree.glob("usr/lib/*/libshoal.so")).parent
    source.write_text(PROGRAM)
    flags = run("pkg-config", "--cflags", "--libs", "shoal", env={
        **os.environ, "PKG_CONFIG_PATH": str(libraries / "pkgconfig"), "PKG_CONFIG_SYSROOT_DIR": str(tree),
        "PKG_CONFIG_ALLOW_SYSTEM_LIBS": "1"}).split()
    run("cc", source, "-o", program, *flags)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SHOAL")}
    check(run(program, env={**environment, "LD_LIBRARY_PATH": str(libraries)}) == "0 0\n", "a program with libshoal does not run alone")


def check_node(tree, here):
    """The unpacked daemon finds its shoal-keep, and its workers find shoal-train."""
    with Mesh(here / "mesh", ["alder"], slots="cpu:1") as mesh:
        node = mesh.nodes[0]
        node.bin = tree / "usr/bin"
        mesh.start()
        file = node.tree / "a.yaml"
        file.write_text("{name: a, entrypoint: shoal-train --help, searcher: {name: single, metric: loss}}")
        identity = node.run("submit", file).split()[-1]
        experiment = wait_until(lambda: (e := node.json("show", identity)["experiment"])["state"] in ("completed", "failed") and e,
                                40, "the trial to end")
        check(experiment["state"] == "completed", f"the trial has {experiment}")


def main():
    build = Path(sys.argv[1]).resolve()
    if shutil.which("dpkg-deb") is None:
        print("skipped: there is no dpkg-deb")
        raise SystemExit(77)
    with tempfile.TemporaryDirectory(prefix="shoal-package-") as directory:
        here = Path(directory)
        file = Path(run(ROOT / "tools/package", "--build", build, "--out", here).strip())
        tree = here / "tree"
        run("dpkg-deb", "-R", file, tree)
        check_contents(tree, file)
        check_scripts(tree)
        check_units(build, here)
        check_library(tree, here)
        check_node(tree, here)
    print(f"ok: {file.name}")


main()
