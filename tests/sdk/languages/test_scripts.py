"""Letters that an encoder's languages do not use; a query of them is searched by words alone."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery import sdk
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.languages.scripts import base_code, has_unread_letters, scripts_of
from pocketquery.sdk.results.filters import language_filter

ENGLISH = ("en",)
NOTES = [
    {"id": "tea", "text": "Green tea: 80 degrees.", "language": "en"},
    {"id": "zug", "text": "Der Zug fährt um sieben.", "language": "de-AT"},
    {"id": "поезд", "text": "Поезд отправляется в семь часов.", "language": "ru"},
    {"id": "お茶", "text": "緑茶は八十度のお湯で入れる。", "language": "ja"},
    {"id": "picture", "text": "[picture without a name]"},
]


@pytest.fixture(scope="module")
def encoder() -> sdk.Encoder:
    return sdk.load(sdk.bundles()["default"])


@pytest.fixture(scope="module")
def index(encoder: sdk.Encoder, tmp_path_factory: pytest.TempPathFactory) -> sdk.Index:
    place = tmp_path_factory.mktemp("tongues") / "index"
    vectors = encoder.encode([note["text"] for note in NOTES])
    with sdk.create_index(place, space_id=encoder.space_id, dimension=encoder.dimension) as builder:
        builder.add(NOTES, vectors)
    return sdk.open_index(place, encoder=encoder)


@pytest.mark.parametrize(
    "text",
    [
        "when does the train leave",
        "Łukasiewicz",
        "Erdős number",
        "São Paulo",
        "Z\u0301urich",
        "TNF-α inhibitors",
        "α-synuclein",
        "getUserById",
        "x86_64-pc-windows-msvc",
        "404",
        "mujhe chai pasand hai",
        "who was Нефертити in the history of ancient Egypt",
        "...",
    ],
)
def test_what_an_english_encoder_reads(encoder: sdk.Encoder, text: str) -> None:
    assert encoder.reads(text)


@pytest.mark.parametrize(
    "text",
    [
        "когда поезд",
        "緑茶",
        "コーヒー豆",
        "चाय कैसे बनाएं",
        "متى يغادر القطار",
        "한국어",
        "ชาเขียว",
        "α",
        "Nguye\u0302\u0303n",
        "tàu hỏa đi lúc mấy giờ",
        "iPhone 15 купить",
        "🎉",
        "🎉🎂🎈",
        "\U0005e123\u0378",
        "\ue000\ue001",
        "\u200b",
    ],
)
def test_what_it_does_not_read(encoder: sdk.Encoder, text: str) -> None:
    assert not encoder.reads(text)


def test_scripts_of_languages() -> None:
    assert scripts_of(ENGLISH) == {"Latn"}
    assert scripts_of(("ja",)) == {"Latn", "Kana", "Hani"}
    assert scripts_of(("sr-Latn", "vi")) == {"Latn", "Cyrl", "Viet"}
    assert base_code("pt-BR") == "pt"
    assert base_code("nb") == base_code("nn") == base_code("no")


@given(st.text(st.characters(max_codepoint=0x24F, categories=["L", "N", "P", "Zs"])))
def test_latin_letters_are_read_in_every_form(text: str) -> None:
    for form in ("NFC", "NFD"):
        plain = unicodedata.normalize(
            form, text.translate({0x1A0: "O", 0x1A1: "o", 0x1AF: "U", 0x1B0: "u"})
        )
        assert not has_unread_letters(plain, ENGLISH)


@given(st.text())
def test_any_text_has_an_answer(text: str) -> None:
    form = unicodedata.normalize("NFD", text)
    assert has_unread_letters(text, ENGLISH) in (True, False)
    assert not has_unread_letters(form, ("en", "vi")) or has_unread_letters(form, ENGLISH)


def test_a_query_in_letters_it_does_not_read_is_searched_by_words(index: sdk.Index) -> None:
    hits, words = index.search("семь поезд"), index.search("семь поезд", mode="lexical")
    assert [(hit.id, hit.bm25) for hit in hits] == [(hit.id, hit.bm25) for hit in words]
    assert [hit.id for hit in hits] == ["поезд"]
    assert hits[0].cosine is None
    assert 0 < hits[0].score <= 1
    assert hits == index.search("семь поезд", filter={"language": "ru"})


def test_emoji_and_what_is_no_character_find_nothing_by_chance(index: sdk.Index) -> None:
    assert not index.search("🎉")
    assert not index.search("\U0005e123")


def test_what_it_reads_is_searched_by_both(index: sdk.Index) -> None:
    hits = index.search("how hot for tea")
    assert hits[0].id == "tea"
    assert hits[0].cosine is not None
    assert len(hits) == len(NOTES)


def test_meaning_alone_and_a_given_vector_are_as_asked(
    index: sdk.Index, encoder: sdk.Encoder
) -> None:
    assert all(hit.cosine is not None for hit in index.search("семь", mode="dense"))
    vector = encoder.encode("tea")
    hits = index.search("семь", vector=vector)
    assert hits[0].cosine is not None


def test_an_encoder_that_says_nothing_of_texts_reads_all(
    index: sdk.Index, encoder: sdk.Encoder
) -> None:
    class Plain:
        space_id = encoder.space_id

        def encode_query(self, text: str, /) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
            return encoder.encode(text)

    with sdk.open_index(index.path, encoder=Plain()) as other:
        assert other.search("семь")[0].cosine is not None


def test_results_in_some_languages(index: sdk.Index) -> None:
    def found(*codes: str) -> set[str]:
        return {hit.id for hit in index.search("tea train", languages=codes)}

    assert found("de", "ru") == {"zug", "поезд"}
    assert found("de-AT") == found("DE") == found("DE-at") == {"zug"}
    assert found("de-DE") == set()
    assert found("de", "en") == {"zug", "tea"}
    narrow = index.search("tea", languages=["en", "ru"], filter={"language": {"$ne": "ru"}})
    assert [hit.id for hit in narrow] == ["tea"]


@pytest.mark.parametrize("codes", [["German"], [3], [], [""], ["de", None]])
def test_no_codes(index: sdk.Index, codes: list[str]) -> None:
    with pytest.raises(InvalidInputError, match="languages"):
        index.search("tea", languages=codes)
    with pytest.raises(InvalidInputError, match="languages"):
        language_filter(codes)
