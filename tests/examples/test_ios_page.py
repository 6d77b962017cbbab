"""The function in docs/how-to/ios.md finds the rows that Python's search by meaning finds."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from pocketquery import sdk
from tests.examples.pages import ROOT

DIMENSION = 48
HEADER = 64  # bytes of the vector file


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
def test_the_function_in_c_finds_what_python_finds(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "ios.md").read_text("utf-8")
    (code,) = re.findall(r"^```c\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "nearest.c").write_text(code, encoding="utf-8")
    library = tmp_path / "nearest.so"
    command = ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-O2", "-shared", "-fPIC"]
    subprocess.run([*command, "-o", str(library), str(tmp_path / "nearest.c")], check=True)
    nearest = ctypes.CDLL(str(library)).nearest
    nearest.restype = ctypes.c_int64

    drawn = np.random.default_rng(5)
    vectors = drawn.normal(size=(300, DIMENSION)).astype(np.float32)
    documents = [sdk.Document(str(row), f"text {row}") for row in range(len(vectors))]
    with sdk.create_index(tmp_path / "index", space_id="space", dimension=DIMENSION) as builder:
        builder.add(documents, vectors)
    gone = np.zeros(len(vectors), np.uint8)
    gone[::7] = 1
    with sdk.open_index(tmp_path / "index", writable=True) as index:
        index.delete([str(row) for row in np.flatnonzero(gone)])
        (file,) = (tmp_path / "index").glob("vectors-*.u8")
        rows = np.frombuffer(file.read_bytes()[HEADER:], np.uint8)
        for _ in range(50):
            query = drawn.normal(size=DIMENSION).astype(np.float32)
            found = nearest(
                rows.ctypes.data_as(ctypes.c_void_p),
                ctypes.c_int64(len(gone)),
                DIMENSION,
                query.ctypes.data_as(ctypes.c_void_p),
                gone.ctypes.data_as(ctypes.c_void_p),
            )
            assert index.search(query, k=1)[0].id == str(found)
