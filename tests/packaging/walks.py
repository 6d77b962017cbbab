"""Counts the files of ours whose code runs on the way to a result; prints them as JSON.

A file counts where a function of it runs, or, at the first encoding, where its module runs: then
imports are part of the way. A package that has nothing but a docstring has no code.
"""

from __future__ import annotations

import ast
import json
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).parents[2]
PACKAGES = ("sdk", "client", "server", "distill", "export")
NOTES = 50


def files_of(way: Callable[[], object], *, modules: bool = False) -> list[str]:
    """The files whose code ``way`` runs, relative to the root."""
    names = set[str]()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and (modules or frame.f_code.co_name != "<module>"):
            names.add(frame.f_code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        way()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    paths = [Path(name) for name in names if name.startswith(str(ROOT))]
    ours = {path.relative_to(ROOT) for path in paths if path.is_file()}
    return sorted(str(one) for one in ours if one.parts[0] in PACKAGES and _has_code(ROOT / one))


def _has_code(path: Path) -> bool:
    body = ast.parse(path.read_text("utf-8")).body
    return any(not isinstance(one, ast.Expr) for one in body)


def write_notes(folder: Path) -> Path:
    folder.mkdir()
    for number in range(NOTES):
        text = f"# Bed {number}\n\nTomatoes of row {number} were planted in March.\n"
        (folder / f"{number}.md").write_text(text, encoding="utf-8")
    return folder


def main() -> None:
    from pocketquery import sdk

    walks = {"first encode": files_of(lambda: sdk.encode("how do plants grow"), modules=True)}
    walks["warm encode"] = files_of(lambda: sdk.encode("when was it sown"))
    encoder = sdk.load()

    def build(folder: Path, notes: Path) -> None:
        from pocketquery.sdk.indexing.building import build_index

        build_index(
            sdk.read_folder(notes),
            encoder.encode_document,
            folder,
            space_id=encoder.space_id,
            dimension=encoder.dimension,
        )

    with tempfile.TemporaryDirectory() as place:
        notes = write_notes(Path(place) / "notes")
        build(Path(place) / "first", notes)  # which imports what it needs
        walks["fifty notes"] = files_of(lambda: build(Path(place) / "index", notes))
        with sdk.open_index(Path(place) / "index", encoder=encoder) as index:
            index.search("tomatoes")
            walks["hybrid search"] = files_of(lambda: index.search("when were they planted"))
    print(json.dumps(walks))


if __name__ == "__main__":
    main()
