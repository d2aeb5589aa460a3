"""The shape of the house. Includes between folders go one way. In a house with rooms (node/core, node/daemon, train) includes and
calls go down only. Cores want nothing from the system but memory, strings and arithmetic; the node core has no function pointers
but its two hooks, no parameter that is called but a comparator of rows, and no time that is forgotten when the node was suspended. No line for people
has the name of a node where it should have the label.

usage: shape.py BUILD_DIRECTORY"""

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
    "node/core": {"base", "gossip", "train/search"},
    "node/config": {"base", "node/core"},
    "node/keep": {"base"},
    "node/slots": {"base", "node/core"},
    "node/addresses": {"base"},
    "node/bulk": {"base", "gossip", "store"},
    "node": {"base", "gossip", "store", "train/search"},
    "tools": {"base", "gossip", "store", "train", "node"},
}

# house -> its rooms, from the top down: a file includes and calls what is in its own room or in a room further down. Files that
# lie in the house itself are its door: every room may include a header there; what such a header declares is the roof's, and is
# called from outside. In a house with a room "." they are that room instead: no other may call or include them.
ROOMS = {
    "node/core": ["roof", "requests", "coordinator", "owner", "queue", "copies", "members", "ground", "view", "facts"],
    "node/daemon": [".", "local", "relay", "api", "workers", "outputs", "disk", "peers", "render", "wire", "ground"],
    "train": ["trainer", "shoal", "group", "plan", "search"],
}

# What a program that does not look inside of a house may include of it.
INSIDE = {"node/core": ("ground", "members", "copies", "owner", "coordinator", "requests", "roof")}

CORES = ["gossip_core", "store_core", "train_core", "node_core", "node_keep_core"]
OWN = ["base", *CORES]
ALLOWED = re.compile(r"^(mem(cpy|move|set|cmp|chr)|str(len|nlen|cmp|ncmp|chr|rchr|str)|crypto_generichash\w*|"
                     r"(__)?stack_chk_fail|__stack_chk_fail|_GLOBAL_OFFSET_TABLE_|__mem\w+_chk|explicit_bzero)$")

HOOKS = {"record_put", "on_disk"}  # the calls from the ground of node/core up to its roof
COMPARATOR = "order"  # a parameter that compares two rows of a list, and is called for nothing else
STALL_ROOMS = ["members", "copies", "owner", "coordinator", "view"]


def sources(root, folder):
    return sorted(path for path in (root / folder).rglob("*.[ch]"))


def includes(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if match:
            yield number, match.group(1)


def folder_of(name):
    """The folder that the rules know this file by."""
    return next(folder for folder in MAY_INCLUDE if name.startswith(folder + "/"))


def room_of(house, name):
    """The room that a file of the house is in, or None: it lies at the door."""
    rest = name[len(house) + 1:].split("/")
    return rest[0] if len(rest) > 1 else "." if "." in ROOMS[house] else None


def bad_includes(root):
    found = []
    for path in sorted(path for folder in MAY_INCLUDE for path in sources(root, folder)):
        name = str(path.relative_to(root))
        here = folder_of(name)
        for number, included in includes(path):
            if not any(included.startswith(folder + "/") for folder in MAY_INCLUDE[here] | {here}):
                found.append(f"{name}:{number}: {here}/ must not include {included}")
            for house, rooms in INSIDE.items():
                is_inside = included.startswith(house + "/") and room_of(house, included) in rooms
                if is_inside and not name.startswith(house + "/"):
                    found.append(f"{name}:{number}: {included} is the inside of {house}/")
    return sorted(set(found))


def includes_that_point_up(root):
    found, seen = [], 0
    for house, rooms in ROOMS.items():
        for path in sources(root, house):
            name = str(path.relative_to(root))
            here = room_of(house, name)
            for number, included in includes(path):
                there = room_of(house, included) if included.startswith(house + "/") else None
                if there is None or here is None:
                    continue
                seen += 1
                if there not in rooms or here not in rooms:
                    found.append(f"{name}:{number}: {house}/{there if there not in rooms else here} is no room that shape.py knows")
                elif rooms.index(there) < rooms.index(here):
                    found.append(f"{name}:{number}: the include of {included} points up, from {here}/ to {there}/")
    if seen == 0:
        found.append("no includes between rooms were read: this test looks at nothing")
    return found


def nm(path, option):
    out = subprocess.run(["nm", option, "--format=posix", str(path)], capture_output=True, text=True, check=True).stdout
    return [line.split()[0] for line in out.splitlines() if line and not line.endswith(":")]


def objects(build, house):
    """One object of each source of the house that is there: {name of the source: path of the object}."""
    found = {}
    for path in sorted(build.rglob("*.c.o")):
        match = re.search(rf"\.dir/({house}/.+\.c)\.o$", str(path))
        if match and (ROOT / match.group(1)).exists():
            found.setdefault(match.group(1), path)
    return found


def calls_that_point_up(build):
    found, seen = [], 0
    for house, rooms in ROOMS.items():
        files = objects(build, house)
        owner = {symbol: name for name, path in files.items() for symbol in nm(path, "--defined-only")}
        for name, path in files.items():
            here = room_of(house, name)
            for symbol in nm(path, "--undefined-only"):
                there = room_of(house, owner[symbol]) if symbol in owner else None
                if there is None or here is None:
                    continue
                seen += 1
                if rooms.index(there) < rooms.index(here):
                    found.append(f"{name}: the call of {symbol} ({owner[symbol]}) points up, from {here}/ to {there}/")
    if seen == 0:
        found.append("no calls between rooms were read: this test looks at nothing")
    return found


# A function pointer, a type of function, and a parameter of such a type: what the pattern finds is its name.
TYPE = r"(?:const|void|struct|enum|union|bool|char|double|size_t|u?int\w*|\w+_id)\b"
FUNCTION_POINTERS = [re.compile(r"\(\s*\*\s*(?:const\s+)?(\w+)\s*(?:\[\w*\]\s*)?\)\s*\("),
                     re.compile(r"\btypedef\b[^;{}()]*\b(\w+)\s*\("),
                     re.compile(rf"[(,]\s*(?:const\s+)?(?:struct\s+|enum\s+)?\w+[\s*]+((?!sizeof\b)\w+)\s*\(\s*{TYPE}")]


def function_pointers(root):
    """What lets a lower room of node/core call a higher one unseen."""
    found = []
    for path in sources(root, "node/core"):
        text = re.sub(r"/\*.*?\*/", lambda comment: "\n" * comment.group().count("\n"), path.read_text(), flags=re.DOTALL)
        for match in (match for pattern in FUNCTION_POINTERS for match in pattern.finditer(text)):
            if (match.group(1) not in HOOKS or path.name != "state.h") and match.group(1) != COMPARATOR:
                line = text.count("\n", 0, match.start(1)) + 1
                found.append(f"{path.relative_to(root)}:{line}: {match.group(1)} is a function pointer, and no hook")
    return found


def bad_symbols(build):
    defined = set()
    for library in OWN:
        defined.update(nm(build / f"lib{library}.a", "--defined-only"))
    found, seen = [], 0
    for core in CORES:
        for name in nm(build / f"lib{core}.a", "--undefined-only"):
            seen += 1
            if name not in defined and not ALLOWED.match(name):
                found.append(f"{core}: wants {name}, which is not memory, string or arithmetic")
    if seen == 0:
        found.append("no symbols were read: this test looks at nothing")
    return found


def forgotten_times(root):
    """What a stall does to an absolute time of a room is decided in the room's stall.c, beside the name of its struct; of the
    ground and the roof in the roof's."""
    core = root / "node" / "core"
    found, seen = [], 0
    for room in [*STALL_ROOMS, "ground", "roof"]:
        stall = core / (room if room in STALL_ROOMS else "roof") / "stall.c"
        decided = stall.read_text().split("\n\n")
        for header in sorted((core / room).glob("*.h")):
            text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.DOTALL)
            for struct, body in re.findall(r"^struct (\w+) \{\n(.*?)^\};", text, re.DOTALL | re.MULTILINE):
                near = " ".join(part for part in decided if re.search(rf"struct {struct}\b", part))
                for name in re.findall(r"\b\w+_ms\b", re.sub(r"\([^()]*\);", ";", body)):
                    seen += 1
                    if not re.search(rf"\b{name}\b", near):
                        found.append(f"{header.relative_to(root)}: {stall.relative_to(root)} does not say what becomes of {name} of "
                                     f"struct {struct}")
    if seen == 0:
        found.append("no times were found: this test looks at nothing")
    return found


RAW_NAME = re.compile(r"\b(?:member|owner|writer|peer|evictor|sponsor|node)->name\b|\brender_node_name\((?!const struct)")


def raw_names(root):
    """Two nodes may have one name: where people read, a node is called by view_label or render_node_label. A raw name is for the
    fields of documents, and for the view, which makes the labels."""
    found = []
    for folder in ("node/core", "node/daemon"):
        for path in sources(root, folder):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                is_made_there = path.parent.name == "view" or "render_put_" in line or "bytes_copy_text" in line
                if path.suffix == ".c" and path.name != "render.c" and not is_made_there and RAW_NAME.search(line):
                    found.append(f"{path.relative_to(root)}:{number}: a node's name, which another node may have, too: use its label")
    return found


def main():
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / "CMakeCache.txt").exists():
        print(__doc__, file=sys.stderr)
        return 2
    build = Path(sys.argv[1])
    problems = bad_includes(ROOT) + includes_that_point_up(ROOT) + function_pointers(ROOT) + forgotten_times(ROOT)
    problems += raw_names(ROOT)
    sanitized = "-fsanitize" in (build / "CMakeCache.txt").read_text()
    if not sanitized:
        problems += bad_symbols(build) + calls_that_point_up(build)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
