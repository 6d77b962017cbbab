"""Languages of what is indexed: found, stored with passages, and warned of once."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery import sdk
from pocketquery.sdk.errors import PocketQueryWarning
from pocketquery.sdk.index.documents import Document
from pocketquery.sdk.languages import reading
from pocketquery.sdk.languages.reading import ReadingTally, language_of, languages_of

TEXTS = {
    "en": "The train to Oslo leaves at seven, and it is the last one of the day.",
    "de": "Der Zug nach Oslo fährt um sieben, und es ist der letzte des Tages.",
    "fr": "Le train pour Oslo part à sept heures, et c'est le dernier de la journée.",
    "es": "El tren para Oslo sale a las siete, y es el último de los que hay en el día.",
    "pl": "Pociąg do Oslo odjeżdża o siódmej i to jest ostatni z nich na dziś.",
    "ru": "Поезд в Осло отправляется в семь часов, и это последний поезд на сегодня.",
    "uk": "Потяг до Осло відправляється о сьомій, і це є останній за день, що їде до нас.",
    "ar": "يغادر القطار إلى أوسلو في الساعة السابعة وهو آخر قطار في هذا اليوم من المحطة.",
    "hi": "ओस्लो के लिए ट्रेन सात बजे निकलती है और यह दिन की आखिरी ट्रेन है।",
    "ja": "オスロ行きの列車は七時に出発します。今日の最終列車です。",
    "zh": "开往奥斯陆的火车七点出发，这是今天的最后一班。",
    "ko": "오슬로행 기차는 일곱 시에 출발하며 오늘의 마지막 기차입니다.",
    "th": "รถไฟไปออสโลออกเวลาเจ็ดโมง",
    "el": "Το τρένο για το Όσλο φεύγει στις επτά.",
    "vi": "Tàu đi Oslo khởi hành lúc bảy giờ, và đó là chuyến cuối của ngày cho các bạn.",
}
NOTHING = ["", " ", "404", "🎉🎂", "\U0005e123\u0378", "..."]


@pytest.fixture(scope="module")
def encoder() -> sdk.Encoder:
    return sdk.load(sdk.bundles()["default"])


@pytest.fixture(params=["py3langid", "base install"])
def detector(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "py3langid":
        pytest.importorskip("py3langid")
    else:
        monkeypatch.setattr(reading, "_detector", lambda: None)
    return str(request.param)


@pytest.mark.parametrize("code", TEXTS)
def test_the_language_of_a_sentence(detector: str, code: str) -> None:
    assert language_of(TEXTS[code]) == code


@pytest.mark.parametrize("text", NOTHING)
def test_what_has_no_language(detector: str, text: str) -> None:
    assert language_of(text) == ""


def test_short_texts_are_not_guessed_by_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_detector", lambda: None)
    assert [language_of(text) for text in ("Oslo", "la", "Oslo de", "getUserById()")] == [""] * 4


def test_two_scripts_and_romanised_hindi_have_some_answer(detector: str) -> None:
    assert language_of(f"{TEXTS['ja']} GPS") == "ja"
    assert language_of("mujhe subah ki chai bahut pasand hai") != "en"


@given(st.text())
def test_any_text_has_an_answer(text: str) -> None:
    code = language_of(text)
    assert code == "" or code.isalpha()


def test_a_passage_that_says_nothing_has_the_language_of_its_file(detector: str) -> None:
    assert languages_of([TEXTS["de"] * 2, "Oslo", TEXTS["ru"]]) == ["de", "de", "ru"]
    assert languages_of(["404", "..."]) == ["", ""]
    assert languages_of([]) == []


def tallied(encoder: object, **shares: int) -> ReadingTally:
    tally = ReadingTally(encoder)
    for code, count in shares.items():
        tally.add([Document(str(number), TEXTS[code]) for number in range(count)])
    return tally


def test_nothing_is_said_of_what_is_read(encoder: sdk.Encoder) -> None:
    assert tallied(encoder).message == ""
    assert tallied(encoder, en=3).message == ""
    assert tallied(encoder, en=20, de=1).message == ""
    assert tallied(object(), de=3).message == ""


def test_what_is_not_read_is_named_with_its_share(encoder: sdk.Encoder) -> None:
    message = tallied(encoder, en=1, de=1, ru=2).message
    assert "ru 53%, de 23%" in message
    assert "it reads en" in message
    many = tallied(encoder, **dict.fromkeys(TEXTS, 1)).message
    assert "..." in many


def test_a_language_that_is_given_counts(encoder: sdk.Encoder) -> None:
    tally = ReadingTally(encoder)
    tally.add(
        [Document("1", "Oslo 1999", {"language": "nb-NO"}), Document("2", "Oslo", {"language": 3})]
    )
    assert "nb-NO 50%" in tally.message


def test_an_encoder_without_languages_is_judged_by_what_it_cannot_spell(
    encoder: sdk.Encoder,
) -> None:
    class Unknown:
        name, languages = "own", ()

        def reads(self, text: str) -> bool:
            return text.isascii()

    message = tallied(Unknown(), en=1, ja=1).message
    assert "own (ja" in message
    assert "unknown letters" in message
    assert tallied(Unknown(), en=3).message == ""


def test_a_place_is_warned_of_once(encoder: sdk.Encoder, tmp_path: Path) -> None:
    with pytest.warns(PocketQueryWarning, match="pip install ./packages/pocketquery-multilingual"):
        tallied(encoder, de=1).warn(tmp_path / "a")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tallied(encoder, de=2).warn(tmp_path / "a")
        tallied(encoder, en=2).warn(tmp_path / "b")
    with pytest.warns(PocketQueryWarning):
        tallied(encoder, de=1).warn(tmp_path / "b")


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    for code, text in TEXTS.items():
        (folder / f"{code}.md").write_text(f"# {code}\n\n{text}\n", encoding="utf-8")
    (folder / "both.md").write_text(
        f"# One\n\n{TEXTS['en']}\n\n# Zwei\n\n{TEXTS['de']}\n", encoding="utf-8"
    )
    (folder / "named.md").write_text("---\nlang: pt-BR\n---\nOslo, 404\n", encoding="utf-8")
    (folder / "own.md").write_text(
        f"---\nlanguage: klingon\n---\n{TEXTS['en']}\n", encoding="utf-8"
    )
    (folder / "numbers.txt").write_text("1 2 3 404\n", encoding="utf-8")
    return folder


def languages(index: sdk.Index) -> Iterator[tuple[str, Any]]:
    for document in index.documents():
        yield document.id.partition("#")[0], document.metadata.get("language")


def test_a_folder_of_many_languages(
    encoder: sdk.Encoder, notes: Path, detector: str, tmp_path: Path
) -> None:
    place = tmp_path / "index"
    with pytest.warns(PocketQueryWarning, match="not in a language of the encoder") as warned:
        sdk.index_folder(notes, place, encoder=encoder)
    assert [one.filename for one in warned] == [__file__]  # the line that called
    with sdk.open_index(place, encoder=encoder) as index:
        named = sorted(languages(index), key=str)
        expected: list[tuple[str, str | None]] = [(f"{code}.md", code) for code in TEXTS]
        expected += [("both.md", "en"), ("both.md", "de"), ("named.md", "pt-BR")]
        expected += [("own.md", "klingon"), ("numbers.txt", None)]
        assert named == sorted(expected, key=str)
        hits = index.search("train to Oslo", 50, languages=["de", "ja"])
        assert {hit.metadata["language"] for hit in hits} == {"de", "ja"}
        assert dict(index.facets("language"))["de"] == 2
        assert index.search("列車", languages=["ja"])[0].metadata["path"] == "ja.md"
        assert not index.search("列車", languages=["ko"])
    (notes / "more.md").write_text(f"# More\n\n{TEXTS['fr']}\n", encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sdk.index_folder(notes, place, encoder=encoder)
    with sdk.open_index(place) as index:
        assert ("more.md", "fr") in set(languages(index))


def test_a_folder_in_english_is_not_warned_of(
    encoder: sdk.Encoder, notes: Path, tmp_path: Path
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sdk.index_folder(notes, tmp_path / "index", encoder=encoder, include=["en.md", "numbers.*"])


def test_documents_of_ones_own_are_looked_at_too(encoder: sdk.Encoder, tmp_path: Path) -> None:
    builder = sdk.create_index(tmp_path / "a", encoder=encoder)
    builder.add([TEXTS["ru"], TEXTS["zh"]])
    with pytest.warns(PocketQueryWarning, match="100%"):
        builder.close()
    with sdk.open_index(tmp_path / "a") as index:
        assert all("language" not in document.metadata for document in index.documents())
    documents = [Document("1", TEXTS["de"])]
    space = {"space_id": encoder.space_id, "dimension": encoder.dimension}
    with pytest.warns(PocketQueryWarning, match="de 100%"):
        sdk.build_index(documents, encoder.encode_document, tmp_path / "b", **space)  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sdk.build_index(documents, lambda texts: encoder.encode(texts), tmp_path / "c", **space)  # type: ignore[arg-type]
