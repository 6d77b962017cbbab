"""Ids of 100,000 strings of 24 languages, in JavaScript and in Python.

    python benchmarks/javascript_ids.py [--bundle NAME] [--data FOLDER]

The strings are Common Voice's sentences, the first of each language. Needs node and sdk/js built.
The last line is one JSON object; the exit status is 1 where a string has other ids.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import subprocess
import sys
import tempfile
from itertools import islice
from pathlib import Path

from pocketquery import sdk
from pocketquery.sdk.bundle.installed import bundles

__all__ = ["other_ids"]

LANGUAGES = "ar bg cs de el en es fa fi fr hi hu id it ja nl pl pt ta tr uk ur vi zh-CN".split()
STRINGS = 100_000


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--bundle", default="pocketquery-multilingual")
    parser.add_argument("--data", default=os.environ.get("POCKETQUERY_DATA", "data"))
    options = parser.parse_args()
    found = other_ids(options.bundle, Path(options.data))
    print(json.dumps({"strings": STRINGS, "languages": len(LANGUAGES), "other_ids": len(found)}))
    for text in found[:10]:
        print(repr(text), file=sys.stderr)
    return 1 if found else 0


def other_ids(bundle: str, data: Path) -> list[str]:
    """The strings whose ids differ."""
    texts: list[str] = []
    for language in LANGUAGES:
        path = data / "common_voice_sentences" / f"{language}.txt.xz"
        with lzma.open(path, "rt", encoding="utf-8") as lines:
            texts += map(str.strip, islice(lines, -(-STRINGS // len(LANGUAGES))))
    texts = texts[:STRINGS]
    if len(texts) < STRINGS:
        raise SystemExit(f"{data}: found {len(texts)} strings, expected {STRINGS}")
    encoder = sdk.load(bundle)
    side = Path(__file__).with_name("javascript_side") / "ids_side.mjs"
    with tempfile.TemporaryDirectory(prefix="pocketquery-") as folder:
        given, out = Path(folder) / "texts.json", Path(folder) / "ids.json"
        given.write_text(json.dumps(texts), encoding="utf-8")
        subprocess.run(["node", side, bundles()[bundle], given, out], check=True)
        theirs = json.loads(out.read_text("utf-8"))
    return [text for text, ids in zip(texts, theirs, strict=True) if encoder.tokenize(text) != ids]


if __name__ == "__main__":
    sys.exit(main())
