from __future__ import annotations

from pathlib import Path

import pytest

from pocketquery.distill.student import StudentShape
from pocketquery.sdk.errors import InvalidInputError
from pocketquery_research.presets.recipe import PRESETS
from pocketquery_research.presets.texts import preset_texts
from research.tests.presets.small_data import data_folder


def test_what_people_asked_is_in_it_and_what_systems_said_is_not(tmp_path: Path) -> None:
    texts = preset_texts(data_folder(tmp_path), documents=20)
    asked = {"who wrote it", "when was it", "where is it", "pay my bill", "a table for two"}
    assert asked <= set(texts.queries)
    assert "said by the system" not in texts.queries
    assert len(texts.documents) == 20


def test_pages_of_the_gate_are_in_no_other_part(tmp_path: Path) -> None:
    texts = preset_texts(data_folder(tmp_path))
    kept_back = {
        document.rsplit(" says ", 1)[0].rsplit("Page ", 1)[1] for document in texts.held_out
    }
    assert kept_back
    for number in kept_back:
        assert not [t for t in (*texts.queries, *texts.documents) if f"Page {number} " in t]
    assert not [text for text in texts.held_out if "divides" in text]


def test_textbooks_have_a_number_of_their_own(tmp_path: Path) -> None:
    data = data_folder(tmp_path)
    found = [
        sum("divides" in text for text in preset_texts(data, textbook_pieces=n, pieces=50).queries)
        for n in (0, 20, 10_000)
    ]
    assert found[0] == 0 < found[1] <= 20 < found[2]
    assert any("divides" in text for text in preset_texts(data).documents)


def test_abstracts_have_a_number_of_their_own(tmp_path: Path) -> None:
    data = data_folder(tmp_path)
    without, few, all_ = (
        preset_texts(data, science_pieces=n, pieces=50, textbook_pieces=20).queries
        for n in (0, 15, 10_000)
    )
    assert not [text for text in without if "gel" in text]
    assert 0 < sum("gel" in text for text in few) <= 15
    assert sum("gel" in text for text in all_) > 15
    assert [text for text in preset_texts(data, science_pieces=15).documents if "gel" in text]


def test_the_same_seed_draws_the_same_texts(tmp_path: Path) -> None:
    data = data_folder(tmp_path)
    assert preset_texts(data, pieces=50, seed=3) == preset_texts(data, pieces=50, seed=3)
    assert preset_texts(data, pieces=50, seed=3) != preset_texts(data, pieces=50, seed=4)


def test_rare_words_are_drawn_more_often_than_they_stand_in_the_pages(tmp_path: Path) -> None:
    data = data_folder(tmp_path, number_of_pages=400)
    whole, drawn = (preset_texts(data, pieces=n).queries for n in (10_000, 600))
    share = [sum("femurs" in text for text in texts) / len(texts) for texts in (whole, drawn)]
    assert share[1] > 2 * share[0] > 0


def test_the_technical_share_of_the_pages_is_what_is_most_like_the_textbooks(
    tmp_path: Path,
) -> None:
    data = data_folder(tmp_path, book="Of bones, femurs are the longest; femurs grow {{}} times.")
    texts = preset_texts(data, technical_share=0.1)
    learnt = [text for text in texts.queries if text.startswith("Page")]
    assert learnt
    assert all("femurs" in text for text in learnt)
    assert not [text for text in texts.documents if "things" in text]
    assert sorted(texts.held_out) == sorted(preset_texts(data).held_out)


def test_without_textbooks_nothing_says_what_is_technical(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"technical_share is 0\.1 without textbooks"):
        preset_texts(data_folder(tmp_path), textbook_pieces=0, technical_share=0.1)


def test_a_missing_data_set_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"pages\.jsonl\.xz is not there"):
        preset_texts(tmp_path)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_has_a_shape(name: str) -> None:
    assert StudentShape.parse(PRESETS[name].shape).layers >= 1
