"""Fills a cache many times, each time killed (SIGKILL) at another line, then filled again.

    python -m research.tests.augmentation.fill_kill_points FOLDER POINTS

After each kill the cache opens and holds whole batches; filled again it holds what an undisturbed
filling gives. Prints how many batches were there after the kills.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from pocketquery.client.views.typing_augmenters import Typo
from pocketquery.server.objectives.augmenter_identity import Identity
from pocketquery_research.augmentation.fill import fill
from pocketquery_research.augmentation.variant_cache import VariantCache
from tests.kills import killed, lines_of, spread
from tests.tiny_models import sentences

MODULES = ("augmentation/variant_cache.py", "augmentation/fill.py")
TEXTS, BATCH = sentences(12), 3


def make(path: Path) -> None:
    """All variants."""
    with VariantCache(path) as cache:
        fill(cache, Typo(0.3), TEXTS, variants=2, batch_size=BATCH)


def content(path: Path) -> dict[str, dict[int, str]]:
    """The variants of every text."""
    with VariantCache(path) as cache:
        return {text: cache.variants(text, Identity.of(Typo(0.3))) for text in TEXTS}


def main() -> None:
    folder, points = Path(sys.argv[1]), int(sys.argv[2])
    lines = lines_of(lambda: make(folder / "whole"), MODULES)
    expected, seen = content(folder / "whole"), Counter[int]()
    for line in spread(lines, points):
        path = folder / f"killed-{line}"
        killed(lambda: lines_of(lambda: make(path), MODULES, line))  # noqa: B023
        found = content(path)
        batches = [TEXTS[start : start + BATCH] for start in range(0, len(TEXTS), BATCH)]
        sizes = [{len(found[text]) for text in batch} for batch in batches]
        assert all(size in ({0}, {2}) for size in sizes), (line, sizes)
        seen[sum(size == {2} for size in sizes)] += 1
        make(path)
        assert content(path) == expected, line
    print(dict(seen))


if __name__ == "__main__":
    main()
