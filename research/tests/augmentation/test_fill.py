from __future__ import annotations

import ast
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from pocketquery.client.views.augmenters import AugResult
from pocketquery.client.views.typing_augmenters import Typo, Unfinished
from pocketquery.client.views.word_augmenters import Shuffle
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.objectives.augmenter_identity import Identity
from pocketquery_research.augmentation.fill import Filled, fill
from pocketquery_research.augmentation.variant_cache import VariantCache
from tests.kills import by_fork, printed
from tests.tiny_models import sentences

ROOT = Path(__file__).parents[3]


class Counted(Typo):
    """Counts the texts it is shown."""

    shown: list[str] = []  # noqa: RUF012 - one for all, on purpose

    def augment_batch(
        self, texts: Sequence[str], rng: random.Random, lang: str | None = None
    ) -> list[AugResult]:
        self.shown.extend(texts)
        return super().augment_batch(texts, rng, lang)


def test_everything_is_made_once(tmp_path: Path) -> None:
    Counted.shown.clear()
    with VariantCache(tmp_path / "cache") as cache:
        first = fill(cache, Counted(0.5), ["a long text", "another text", " ", "a long text"])
        assert first == Filled(texts=2, made=2, present=0, unchanged=first.unchanged)
        again = fill(cache, Counted(0.5), ["another text", "a third text"], variants=2)
        assert (again.made, again.present) == (3, 1)
    assert sorted(Counted.shown) == sorted(
        ["a long text", "another text", "another text", "a third text", "a third text"]
    )


def test_equal_seeds_give_equal_variants_and_others_do_not(tmp_path: Path) -> None:
    identity = Identity.of(Shuffle())
    found = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        with VariantCache(tmp_path / name) as cache:
            fill(cache, Shuffle(), sentences(20), variants=3, seed=seed)
            found.append([cache.variants(text, identity) for text in sentences(20)])
    assert found[0] == found[1] != found[2]
    assert any(len(set(variants.values())) > 1 for variants in found[0])


def test_what_is_unchanged_is_counted_and_kept(tmp_path: Path) -> None:
    with VariantCache(tmp_path / "cache") as cache:
        assert fill(cache, Unfinished(), ["x", "yz"]) == Filled(2, 2, 0, 1)
        assert cache.variants("x", Identity.of(Unfinished())) == {0: "x"}
        assert fill(cache, Unfinished(), ["x", "yz"]).made == 0


class Blank(Shuffle):
    """A plug-in that breaks its promise."""

    def augment_batch(
        self, texts: Sequence[str], rng: random.Random, lang: str | None = None
    ) -> list[AugResult]:
        return [AugResult(" ", changed=True) for _ in texts]


class Absent(Shuffle):
    """A plug-in whose model is not here."""

    def available(self) -> tuple[bool, str]:
        return False, "no model folder"


def test_what_cannot_be_had_or_kept_is_refused(tmp_path: Path) -> None:
    with VariantCache(tmp_path / "cache") as cache:
        with pytest.raises(InvalidInputError, match="made a blank variant of 'a b'"):
            fill(cache, Blank(), ["a b"])
        with pytest.raises(InvalidInputError, match=r"not available.*no model folder"):
            fill(cache, Absent(), ["a b"])
        with pytest.raises(InvalidInputError, match="variants is 0"):
            fill(cache, Shuffle(), ["a b"], variants=0)
        with pytest.raises(InvalidInputError, match="batch_size is 0"):
            fill(cache, Shuffle(), ["a b"], batch_size=0)


@by_fork
def test_killed_at_many_lines(tmp_path: Path) -> None:
    said = printed("research.tests.augmentation.fill_kill_points", tmp_path, 12)
    assert set(ast.literal_eval(said[-1])) == {0, 1, 2, 3, 4}
