"""Python holds to conformance/words, as JavaScript does."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from tests.conformance import stems, words


def stored(path: Path) -> Any:
    return json.loads(gzip.decompress(path.read_bytes()))


def test_terms_and_queries() -> None:
    assert json.loads(json.dumps(words.cases())) == stored(words.TARGET)


def test_stems() -> None:
    assert stems.stems(60) == stored(stems.TARGET)
