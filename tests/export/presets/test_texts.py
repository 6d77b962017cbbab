from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path

import pytest

from pocketquery.distill.student import StudentShape
from pocketquery.export.presets.recipe import PRESETS
from pocketquery.export.presets.texts import preset_texts
from pocketquery.sdk.errors import InvalidInputError


def _data(folder: Path, *, number_of_pages: int = 60) -> Path:
    """Pages, six of which speak of femurs, a textbook, and what people asked."""
    pages = [
        (f"Title {page}", f"Page {page} says {{}} {'femurs' if page < 6 else 'things'} at length.")
        for page in range(number_of_pages)
    ]
    _write_pages(folder / "enwiki_pages" / "pages.jsonl.xz", pages)
    modules = [(f"Cell {i}", f"Cell {i} divides {{}} times.") for i in range(10)]
    _write_pages(folder / "openstax_textbooks" / "pages.jsonl.xz", modules)
    questions = folder / "nq_open_queries"
    _write(questions / "dev.jsonl.gz", json.dumps({"question": "who wrote it"}))
    _write(questions / "efficientqa_dev.jsonl.gz", json.dumps({"question": "when was it"}))
    _write(questions / "efficientqa_test_questions.tsv.gz", "where is it")
    _write(folder / "clinc150" / "train.tsv.gz", "domain\tintent\ttext\nbank\tpay\tpay my bill")
    turns = {"turns": [["U", "a table for two"], ["S", "said by the system"]]}
    for part in ("train", "dev"):
        _write(folder / "sgd_dialogues" / f"{part}.jsonl.gz", json.dumps(turns))
    return folder


def _write_pages(path: Path, pages: list[tuple[str, str]]) -> None:
    path.parent.mkdir(parents=True)
    with lzma.open(path, "wt", encoding="utf-8") as file:
        for title, text in pages:
            paragraphs = [
                {"section": "History", "text": f"{text.format(i)} It says so again here."}
                for i in range(4)
            ]
            file.write(json.dumps({"title": title, "paragraphs": paragraphs}) + "\n")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write(text + "\n")


def test_what_people_asked_is_in_it_and_what_systems_said_is_not(tmp_path: Path) -> None:
    texts = preset_texts(_data(tmp_path), documents=20)
    asked = {"who wrote it", "when was it", "where is it", "pay my bill", "a table for two"}
    assert asked <= set(texts.queries)
    assert "said by the system" not in texts.queries
    assert len(texts.documents) == 20


def test_pages_of_the_gate_are_in_no_other_part(tmp_path: Path) -> None:
    texts = preset_texts(_data(tmp_path))
    kept_back = {
        document.rsplit(" says ", 1)[0].rsplit("Page ", 1)[1] for document in texts.held_out
    }
    assert kept_back
    for number in kept_back:
        assert not [t for t in (*texts.queries, *texts.documents) if f"Page {number} " in t]
    assert not [text for text in texts.held_out if "divides" in text]


def test_textbooks_have_a_number_of_their_own(tmp_path: Path) -> None:
    data = _data(tmp_path)
    found = [
        sum("divides" in text for text in preset_texts(data, textbook_pieces=n, pieces=50).queries)
        for n in (0, 20, 10_000)
    ]
    assert found[0] == 0 < found[1] <= 20 < found[2]
    assert any("divides" in text for text in preset_texts(data).documents)


def test_the_same_seed_draws_the_same_texts(tmp_path: Path) -> None:
    data = _data(tmp_path)
    assert preset_texts(data, pieces=50, seed=3) == preset_texts(data, pieces=50, seed=3)
    assert preset_texts(data, pieces=50, seed=3) != preset_texts(data, pieces=50, seed=4)


def test_rare_words_are_drawn_more_often_than_they_stand_in_the_pages(tmp_path: Path) -> None:
    data = _data(tmp_path, number_of_pages=400)
    whole, drawn = (preset_texts(data, pieces=n).queries for n in (10_000, 600))
    share = [sum("femurs" in text for text in texts) / len(texts) for texts in (whole, drawn)]
    assert share[1] > 2 * share[0] > 0


def test_a_missing_data_set_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"pages\.jsonl\.xz is not there"):
        preset_texts(tmp_path)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_has_a_shape(name: str) -> None:
    assert StudentShape.parse(PRESETS[name].shape).layers >= 1
