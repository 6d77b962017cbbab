"""The resources of the Java library: ``python -m tests.java.resources FOLDER``.

The tables of ``conformance/tables``, that of scripts, and Snowball's stemmers as programs in JSON,
with their licence.
"""

import json
import runpy
import shutil
import sys
from importlib.metadata import distribution
from pathlib import Path

from pocketquery.sdk.languages.scripts import RANGES, WRITTEN

ROOT = Path(__file__).parents[2]


def main(folder: Path) -> None:
    """Write them into ``folder/pocketquery``."""
    # The JavaScript SDK runs the same programs.
    program = runpy.run_path(str(ROOT / "sdk/js/scripts/words/stemmers.py"))["program"]
    place = folder / "pocketquery"
    (place / "stemmers").mkdir(parents=True, exist_ok=True)
    for name in ("words.json", "wordpiece.json", "common_words.json"):
        shutil.copyfile(ROOT / "conformance/tables" / name, place / name)
    scripts = {"ranges": RANGES.strip(), "written": WRITTEN.strip()}
    (place / "scripts.json").write_text(json.dumps(scripts), "utf-8")
    for file in distribution("snowballstemmer").files or ():
        path = Path(str(file.locate()))
        if path.name == "COPYING":
            shutil.copyfile(path, place / "stemmers" / "LICENSE")
        elif path.name.endswith("_stemmer.py"):
            made = program(path.read_text("utf-8"))
            text = json.dumps(made, ensure_ascii=False, separators=(",", ":"))
            name = path.name.removesuffix("_stemmer.py")
            (place / "stemmers" / f"{name}.json").write_text(text, "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
