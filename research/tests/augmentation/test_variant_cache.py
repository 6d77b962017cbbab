from __future__ import annotations

import hashlib
import json
import random
import sqlite3
from dataclasses import dataclass
from pathlib import Path

import pytest

from pocketquery.client.views.augmenter_choice import choose
from pocketquery.client.views.augmenters import RuleAugmenter
from pocketquery.client.views.typing_augmenters import Typo
from pocketquery.client.views.word_augmenters import Shuffle, WordDrop
from pocketquery.sdk.errors import (
    ArtifactError,
    ArtifactNotFoundError,
    CorruptArtifactError,
    InvalidInputError,
    UnsupportedVersionError,
)
from pocketquery.server.objectives.augmenter_catalogue import CATALOGUE
from pocketquery.server.objectives.augmenter_identity import Identity
from pocketquery_research.augmentation.fill import fill
from pocketquery_research.augmentation.rules.synonyms import Synonyms
from pocketquery_research.augmentation.variant_cache import VariantCache, variant_key
from tests.tiny_models import sentences


@dataclass(frozen=True)
class Loud(RuleAugmenter):
    """A plug-in with a version."""

    marks: int = 1
    version: str = "2.1"
    name = "loud"

    def rewrite(self, text: str, rng: random.Random) -> str:
        return text + "!" * self.marks


def test_the_key_is_the_sha1_of_text_name_version_and_parameters() -> None:
    identity = Identity.of(Loud(3))
    assert identity == ("loud", "2.1", '{"marks": 3, "version": "2.1"}')
    whole = json.dumps(["knit", "loud", "2.1", '{"marks": 3, "version": "2.1"}'])
    assert variant_key("knit", identity) == hashlib.sha1(whole.encode()).digest()
    others = [Loud(2), Loud(3, "2.2"), Shuffle(), Typo(0.1), Typo(0.2)]
    keys = {variant_key("knit", Identity.of(one)) for one in [*others, Loud(3)]}
    assert len(keys | {variant_key("Knit", identity)}) == 7
    tables = [Synonyms({"a": [word]}) for word in "bc"]  # as long as each other
    assert Identity.of(tables[0]) != Identity.of(tables[1])


def test_what_was_made_is_read_again(tmp_path: Path) -> None:
    with VariantCache(tmp_path / "views.sqlite") as cache:
        identity = cache.introduce(WordDrop(0.1, at_least=0))
        cache.add(identity, [("a b", 0, "a"), ("a b", 1, "b"), ("c d", 0, "c")])
        cache.add(identity, [("a b", 0, "another")])  # what is there stays
    with VariantCache(tmp_path / "views.sqlite", read_only=True) as cache:
        assert cache.variants("a b", identity) == {0: "a", 1: "b"}
        assert cache.variants("x", identity) == {}
        known = cache.one_named("word_drop")
        assert (known.identity, known.strength, known.languages) == (identity, "light", None)
        with pytest.raises(ArtifactError, match="read-only"):
            cache.add(identity, [("e f", 0, "e")])


def test_a_batch_is_added_whole_or_not_at_all(tmp_path: Path) -> None:
    with VariantCache(tmp_path / "views.sqlite") as cache:
        identity = cache.introduce(Shuffle())
        with pytest.raises(ArtifactError):
            cache.add(identity, [("a b", 0, "b a"), ("c d", 0, None)])  # type: ignore[list-item]
        assert cache.variants("a b", identity) == {}
        cache.add(identity, [("a b", 0, "b a")])
        assert cache.variants("a b", identity) == {0: "b a"}


def test_an_augmenter_is_found_by_name_where_there_is_one(tmp_path: Path) -> None:
    with VariantCache(tmp_path / "views.sqlite") as cache:
        with pytest.raises(InvalidInputError, match="no variants by 'typo', expected one of: none"):
            cache.one_named("typo")
        for rate in (0.1, 0.2):
            cache.introduce(Typo(rate))
        cache.introduce(choose("template", CATALOGUE))
        assert cache.one_named("template").languages == frozenset({"en"})
        with pytest.raises(InvalidInputError, match=r"2 augmenters called 'typo'.*0\.1.*0\.2"):
            cache.one_named("typo")


def test_what_is_no_cache_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactNotFoundError, match="no such cache"):
        VariantCache(tmp_path / "absent", read_only=True)
    (tmp_path / "text").write_text("no database " * 100)
    with pytest.raises(CorruptArtifactError, match="damaged"):
        VariantCache(tmp_path / "text")
    other = sqlite3.connect(tmp_path / "other")
    other.execute("CREATE TABLE something (a)")
    other.close()
    with pytest.raises(CorruptArtifactError, match="another program"):
        VariantCache(tmp_path / "other")
    VariantCache(tmp_path / "newer").close()
    newer = sqlite3.connect(tmp_path / "newer")
    newer.execute("PRAGMA user_version = 9")
    newer.close()
    with pytest.raises(UnsupportedVersionError, match="version 9"):
        VariantCache(tmp_path / "newer")
    with pytest.raises(ArtifactError, match="unable to open database file; nothing was changed"):
        VariantCache(tmp_path / "no folder" / "cache")


def test_truncated_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "views.sqlite"
    with VariantCache(path) as cache:
        fill(cache, Shuffle(), sentences(200))
    path.write_bytes(path.read_bytes()[:6000])
    with pytest.raises(CorruptArtifactError, match="damaged"), VariantCache(path) as cache:
        fill(cache, Shuffle(), sentences(200))
