"""Writes the wheel of the Python package with libshoal in it (tools/package --wheel). usage: wheel.py LIBRARY OUT_DIRECTORY VERSION

A wheel is a zip archive (PEP 427): the package, and a directory with METADATA, WHEEL and RECORD. Prints the path of the file.
"""

import base64
import hashlib
import os
import platform
import re
import subprocess
import sys
import time
import zipfile
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "train" / "python"


def tag_of(library):
    """The oldest glibc with what the library needs, as PEP 600 names it."""
    symbols = subprocess.run(["objdump", "-T", library], check=True, capture_output=True, text=True).stdout
    needed = max(tuple(map(int, version)) for version in re.findall(r"GLIBC_(\d+)\.(\d+)", symbols))
    return f"py3-none-manylinux_{needed[0]}_{needed[1]}_{platform.machine()}"


def main():
    library, out, version = sys.argv[1:]
    tag = tag_of(library)
    project = (PACKAGE / "pyproject.toml").read_text()
    summary = re.search(r'^description = "(.*)"$', project, re.MULTILINE)[1]
    python = re.search(r'^requires-python = "(.*)"$', project, re.MULTILINE)[1]
    files = {f"shoal/{path.relative_to(PACKAGE / 'shoal')}": path.read_bytes() for path in sorted((PACKAGE / "shoal").rglob("*"))
             if path.is_file() and "__pycache__" not in path.parts and "lib" not in path.relative_to(PACKAGE / "shoal").parts[:1]}
    files["shoal/lib/libshoal.so.0"] = Path(library).read_bytes()
    info = f"shoal-{version}.dist-info"
    files[f"{info}/METADATA"] = (f"Metadata-Version: 2.1\nName: shoal\nVersion: {version}\nSummary: {summary}\n"
                                 f"Requires-Python: {python}\nDescription-Content-Type: text/markdown\n\n"
                                 f"{(PACKAGE / 'README.md').read_text()}").encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: shoal\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    record = "".join(f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}\n"
                     for name, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    moment = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())), 315532800))[:6]  # zip begins in 1980
    path = Path(out) / f"shoal-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, moment)
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    print(path)


main()
