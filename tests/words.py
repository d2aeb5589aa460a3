"""How plain the comments are: the share of pronouns among the words of all comments in .c and .h files outside tests/, and how
often they say who, whom or whoever. A sentence that names its noun is understood without the line above it. It prints figures
and fails no build.

usage: words.py [PATH ...]   with paths, one row for each of those files or folders, the worst first"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PRONOUNS = frozenset("it its they them their he she this that these those what which who whom whoever whose one ones "
                     "nobody somebody others other".split())
PERSONS = frozenset(("who", "whom", "whoever"))
TOKEN = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL)


def comment_words(path):
    comments = [token for token in TOKEN.findall(path.read_text()) if token.startswith("/")]
    return re.findall(r"[a-z]+(?:'[a-z]+)?", " ".join(comments).lower())


def sources():
    names = subprocess.run(["git", "ls-files", "*.c", "*.h"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in names.splitlines() if not name.startswith("tests/")]


def row(names):
    words = [word for name in names for word in comment_words(ROOT / name)]
    pronouns = sum(word in PRONOUNS for word in words)
    persons = sum(word in PERSONS for word in words)
    count = len(words) or 1
    return 100 * pronouns / count, 1000 * persons / count, len(words)


def main():
    if any(argument.startswith("-") for argument in sys.argv[1:]):
        print(__doc__, file=sys.stderr)
        return 2
    names = sources()
    rows = []
    for path in sys.argv[1:]:
        path = path.rstrip("/")
        rows.append((*row([name for name in names if name == path or name.startswith(path + "/")]), path))
    for pronouns, persons, count, path in sorted(rows, reverse=True):
        print(f"{pronouns:5.1f} % pronouns, {persons:4.1f} of 1,000 who, whom or whoever, {count:6} words: {path}")
    if not rows:
        pronouns, persons, count = row(names)
        print(f"{pronouns:.1f} % of {count} comment words are pronouns; {persons:.1f} of 1,000 are who, whom or whoever")
    return 0


sys.exit(main())
