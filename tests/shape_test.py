"""shape.py sees what it is there for: one planted call, one planted include and one planted function pointer, each of which points
up, and one name of a node fail; the same house without them passes."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import shape  # noqa: E402

FILES = {
    "node/core/core.h": "int door(void);\n",
    "node/core/roof/step.h": "int roof_step(void);\n",
    "node/core/roof/step.c": '#include "node/core/roof/step.h"\n#include "node/core/view/view.h"\n'
                             "int roof_step(void)\n{\n    return view_row();\n}\n",
    "node/core/view/view.h": "int view_row(void);\n",
    "node/core/view/view.c": '#include "node/core/core.h"\n#include "node/core/view/view.h"\n'
                             "int view_row(void)\n{\n    return 0;\n}\n",
}


class Planted(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.root = Path(self.directory.name)
        for name, text in FILES.items():
            self.write(name, text)
        self.real_root, shape.ROOT = shape.ROOT, self.root

    def tearDown(self):
        shape.ROOT = self.real_root
        self.directory.cleanup()

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def problems(self):
        build = self.root / "build"
        for source in sorted((self.root / "node").rglob("*.c")):
            out = build / "node_core.dir" / (str(source.relative_to(self.root)) + ".o")
            out.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run([os.environ.get("CC", "cc"), "-w", f"-I{self.root}", "-c", str(source), "-o", str(out)], check=True)
        return shape.includes_that_point_up(self.root) + shape.calls_that_point_up(build) + shape.function_pointers(self.root)

    def test_a_house_whose_arrows_go_down_passes(self):
        self.assertEqual(self.problems(), [])

    def test_a_call_that_points_up_fails(self):
        self.write("node/core/view/view.c", "int roof_step(void);\nint view_row(void)\n{\n    return roof_step();\n}\n")
        self.assertEqual(self.problems(), ["node/core/view/view.c: the call of roof_step (node/core/roof/step.c) points up, "
                                           "from view/ to roof/"])

    def test_a_name_that_two_nodes_may_have_fails(self):
        self.write("node/core/roof/step.c", 'TRACE(trace, "%s is alive", view_label(view, id).text);\n'
                                            'TRACE(trace, "%s is dead", member->name);\n')
        self.assertEqual(shape.raw_names(self.root), ["node/core/roof/step.c:2: a node's name, which another node may have, too: "
                                                      "use its label"])

    def test_an_include_that_points_up_fails(self):
        self.write("node/core/view/view.c", '#include "node/core/roof/step.h"\nint view_row(void)\n{\n    return 0;\n}\n')
        self.assertEqual(self.problems(), ["node/core/view/view.c:1: the include of node/core/roof/step.h points up, "
                                           "from view/ to roof/"])

    def test_a_function_pointer_fails(self):
        self.write("node/core/view/view.h", "int view_row(void);\nstruct view {\n    int (*up)(void);\n};\n")
        self.assertEqual(self.problems(), ["node/core/view/view.h:3: up is a function pointer, and no hook"])

    def test_a_type_of_function_fails(self):
        self.write("node/core/view/view.h", "int view_row(void);\ntypedef int\nview_up(const void *context);\n")
        self.assertEqual(self.problems(), ["node/core/view/view.h:3: view_up is a function pointer, and no hook"])

    def test_a_parameter_that_is_called_fails_unless_it_compares(self):
        self.write("node/core/view/view.h", "int view_row(void);\nint view_list(int order(const void *a, const void *b));\n"
                                            "int view_all(int count, int up(void));\n")
        self.assertEqual(self.problems(), ["node/core/view/view.h:3: up is a function pointer, and no hook"])


if __name__ == "__main__":
    unittest.main()
