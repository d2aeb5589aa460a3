"""The learning curves that tools/bench/curves has made: the grid, and the reader of the data."""

from pathlib import Path
from typing import NamedTuple

EPOCHS = 27
IMAGES = 24000  # the first ones of the training set; a twelfth of them is the validation
VALIDATION = IMAGES // 12
RATES = [round(10 ** (-3 + 3 * i / 7), 6) for i in range(8)]
WIDTHS = [8, 16, 32, 64]
MOMENTA = [0.0, 0.6, 0.85, 0.95]
DECAYS = [0.0, 0.6, 0.9, 1.0]
FILE = Path(__file__).resolve().parent / "curves.txt"


class Curve(NamedTuple):
    right: list  # validation images that are right behind each epoch; fewer than EPOCHS: the training ended at a NaN
    loss: list  # of the validation, likewise
    test: float | None  # accuracy at the end


def load(file=FILE):
    """{(seed, (rate, width, momentum, decay)): Curve}, the four as indices. A last line that is cut off is passed over."""
    found = {}
    text = file.read_text() if file.exists() else ""
    for line in text.splitlines(keepends=True):
        if line.startswith("#") or not line.endswith("\n"):
            continue
        seed, r, w, m, d, test, *epochs = line.split()
        pairs = [epoch.split(":") for epoch in epochs if epoch != "-"]
        found[int(seed), (int(r), int(w), int(m), int(d))] = Curve(
            [int(right) for right, _ in pairs], [int(loss) / 1000 for _, loss in pairs], None if test == "-" else int(test) / 10000)
    return found
