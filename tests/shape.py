"""The shape of the house: includes between folders go one way, cores want nothing from the system but memory, strings and
arithmetic, and no time of the node core is forgotten when the node was suspended. usage: shape.py BUILD_DIRECTORY"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# folder -> what it may include besides itself: a folder with all below it, or a room of one
MAY_INCLUDE = {
    "base": set(),
    "gossip": {"base"},
    "store": {"base"},
    "train": {"base"},
    "node/core": {"base", "gossip", "train"},
    "node/config": {"base", "node/core"},
    "node/keep": {"base"},
    "node/slots": {"base", "node/core"},
    "node/bulk": {"base", "gossip", "store"},
    "node": {"base", "gossip", "store", "train"},
    "tools": {"base", "gossip", "store", "train", "node"},
}

CORES = ["gossip_core", "store_core", "train_core", "node_core", "node_keep_core"]
OWN = ["base", *CORES]
ALLOWED = re.compile(r"^(mem(cpy|move|set|cmp|chr)|str(len|nlen|cmp|ncmp|chr|rchr|str)|crypto_generichash\w*|"
                     r"(__)?stack_chk_fail|__stack_chk_fail|_GLOBAL_OFFSET_TABLE_|__mem\w+_chk|explicit_bzero)$")


def room(path):
    """The folder that the rules know this file by."""
    return next(folder for folder in MAY_INCLUDE if path.startswith(folder + "/"))


def bad_includes():
    found = []
    for path in sorted(path for folder in MAY_INCLUDE for path in (ROOT / folder).rglob("*.[ch]")):
        name = str(path.relative_to(ROOT))
        here = room(name)
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if match and not any(match.group(1).startswith(folder + "/") for folder in MAY_INCLUDE[here] | {here}):
                found.append(f"{name}:{number}: {here}/ must not include {match.group(1)}")
    return sorted(set(found))


def symbols(archive, option):
    out = subprocess.run(["nm", option, "--format=posix", str(archive)], capture_output=True, text=True, check=True).stdout
    return [line.split()[0] for line in out.splitlines() if line and not line.endswith(":")]


def bad_symbols(build):
    defined = set()
    for library in OWN:
        defined.update(symbols(build / f"lib{library}.a", "--defined-only"))
    found, seen = [], 0
    for core in CORES:
        for name in symbols(build / f"lib{core}.a", "--undefined-only"):
            seen += 1
            if name not in defined and not ALLOWED.match(name):
                found.append(f"{core}: wants {name}, which is not memory, string or arithmetic")
    if seen == 0:
        found.append("no symbols were read: this test looks at nothing")
    return found


def forgotten_times():
    """What a stall does to an absolute time of the node core is decided in stall.c, beside the name of its struct."""
    core = ROOT / "node" / "core"
    decided = (core / "roof" / "stall.c").read_text().split("\n\n")
    found, seen = [], 0
    for header, structs in (("ground/state.h", r"(\w+)"), ("view/view.h", r"(view_worker)")):
        text = re.sub(r"/\*.*?\*/", "", (core / header).read_text(), flags=re.DOTALL)
        for struct, body in re.findall(r"^struct " + structs + r" \{\n(.*?)^\};", text, re.DOTALL | re.MULTILINE):
            near = " ".join(part for part in decided if re.search(rf"struct {struct}\b", part))
            for name in re.findall(r"\b\w+_ms\b", body):
                seen += 1
                if not re.search(rf"\b{name}\b", near):
                    found.append(f"node/core/{header}: stall.c does not say what becomes of {name} of struct {struct}")
    if seen == 0:
        found.append("no times were found: this test looks at nothing")
    return found


def main():
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / "CMakeCache.txt").exists():
        print(__doc__, file=sys.stderr)
        return 2
    build = Path(sys.argv[1])
    problems = bad_includes() + forgotten_times()
    sanitized = "-fsanitize" in (build / "CMakeCache.txt").read_text()
    if not sanitized:
        problems += bad_symbols(build)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


sys.exit(main())
