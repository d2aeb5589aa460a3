"""What an installation of the package has."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


class Packages(unittest.TestCase):
    def test_all_of_them_are_installed(self):
        listed = re.search(r"^packages = \[(.*)\]$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE).group(1)
        there = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "shoal").rglob("__init__.py")}
        self.assertEqual(set(re.findall('"([^"]+)"', listed)), there)


if __name__ == "__main__":
    unittest.main()
