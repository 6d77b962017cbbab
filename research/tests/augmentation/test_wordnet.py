from __future__ import annotations

import random
from pathlib import Path

import pytest

from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError
from pocketquery_research.augmentation.wordnet import WordNet
from research.tests.augmentation.small_wordnet import write_wordnet


def test_synonyms_are_those_of_every_sense_and_form(models: Path) -> None:
    wordnet = WordNet(str(models / "wordnet"))
    assert wordnet.synonyms("car") == ("automobile", "motor car", "railcar")
    assert wordnet.synonyms("Cars") == ("automobile", "car", "motor car", "railcar")
    assert wordnet.synonyms("bought") == ("buy", "purchase")
    assert wordnet.synonyms("castle") == wordnet.synonyms("") == ()
    assert wordnet.synonyms("a") == ()  # a stop word, though there is such a lemma


def test_words_are_replaced_where_they_stand(models: Path) -> None:
    wordnet = WordNet(str(models / "wordnet"), rate=1.0)
    found = {wordnet.augment("Buy  it, (Large)!", random.Random(s)).text for s in range(9)}
    assert found == {"Purchase  it, (Big)!"}
    assert WordNet(str(models / "wordnet"), rate=0.0).augment("car", random.Random(0)).text == "car"
    assert not wordnet.augment("car", random.Random(0), "de").changed


def test_the_rate_is_the_share_of_the_words_found(models: Path) -> None:
    text = "large " * 2000
    view = WordNet(str(models / "wordnet"), rate=0.3).augment(text, random.Random(0)).text
    assert view.count("big") / 2000 == pytest.approx(0.3, abs=0.04)


def test_a_copy_that_lacks_files_says_which(tmp_path: Path) -> None:
    write_wordnet(tmp_path)
    (tmp_path / "data.adj").unlink()
    usable, missing = WordNet(str(tmp_path)).available()
    assert not usable
    assert "lacks data.adj;" in missing


def test_what_is_no_wordnet_is_refused(tmp_path: Path) -> None:
    write_wordnet(tmp_path)
    (tmp_path / "index.noun").write_text("nonsense\n")
    with pytest.raises(CorruptArtifactError, match="cannot be read as WordNet"):
        WordNet(str(tmp_path)).augment("car", random.Random(0))
    with pytest.raises(InvalidInputError, match="rate is 3"):
        WordNet("x", rate=3)
