from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketquery.sdk.words import Analyzer, Vocabulary, detect_language, expand

TEXTS = {
    "english": "They receive a parcel. Running applications; configuration, configure, config. C++",
    "german": "Das Hochspannungsnetzgerät am Netz, ein Gerät; Donau, Dampfschiff, die Fahrten; "
    "Hochspannungsprüfung, eine Messung; Hochspannung; Tageszeitung",
    "swedish": "Järnvägsstationen vid järnvägen; en station",
    "finnish": "Rautatieasema on rautatie ja asema",
    "dutch": "De ziektekostenverzekering; ziektekosten en een verzekering",
}


def vocabulary(language: str) -> Vocabulary:
    counts = Counter(term for term, _ in Analyzer(language).occurrences([TEXTS[language]])[0])
    return Vocabulary(sorted(counts), lambda term: counts[term])


def added(language: str, text: str, prefix: bool = False) -> dict[str, float]:
    analyzer = Analyzer(language)
    query = analyzer.query(text, prefix=prefix)
    weights, _ = expand(query, vocabulary(language), analyzer)
    return {term: weight for term, weight in weights.items() if term not in query.terms}


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("recieve", {"receiv": 0.5}),  # swapped
        ("parcl", {"parcel": 0.5}),  # left out
        ("parrcel", {"parcel": 0.5}),
        ("pargel", {"parcel": 0.5}),
        ("aplication", {"applic": 0.5}),
        ("applicatoin", {"applic": 0.25}),  # the ending
        ("confegurashion", {}),  # too far
        ("teh", {}),  # too short
        ("parcel", {}),  # is there
        ("b++", {}),
    ],
)
def test_nearest_terms(text: str, near: dict[str, float]) -> None:
    assert added("english", text) == near


def test_the_nearest_of_many_words_are_not_looked_for() -> None:
    words = " ".join(letter * 5 for letter in "abcdefghijklmnopqrstu")
    assert added("english", f"parcl {words}") == {"parcel": 0.5}
    assert added("english", f"{words} parcl aplicatoins") == {}


def test_a_prefix_stands_for_what_begins_with_it() -> None:
    assert added("english", "my conf", prefix=True).keys() >= {"config", "configur"}
    assert "configur" in added("english", "configurat", prefix=True)  # longer than its stem
    assert added("english", "my zzz", prefix=True) == {}


@pytest.mark.parametrize(
    ("language", "text", "compound"),
    [
        ("german", "Netzgerät", "hochspannungsnetzgerat"),
        ("german", "Netzgeräte", "hochspannungsnetzgerat"),
        ("german", "Hochspannung", "hochspannungsnetzgerat"),
        ("german", "Netzgerät", "gerat"),
        ("german", "Prüfung", "hochspannungspruf"),
        ("german", "Zeitung", "tageszeit"),
        ("german", "Hochspannungsmessung", "messung"),
        ("german", "Hochspannungsmessung", "hochspann"),
        ("german", "Donaudampfschiff", "dampfschiff"),
        ("german", "Donaudampfschiff", "donau"),
        ("swedish", "station", "jarnvagsstation"),
        ("finnish", "asema", "rautatieasem"),
        ("dutch", "verzekering", "ziektekostenverzekeer"),
        ("dutch", "ziektekosten", "ziektekostenverzekeer"),
    ],
)
def test_compounds_of_a_word(language: str, text: str, compound: str) -> None:
    assert compound in added(language, text)


WORDS = st.text("abcdé水", min_size=1, max_size=6)


@settings(max_examples=300, deadline=None)
@given(st.sets(WORDS, max_size=30), WORDS, st.sampled_from([1, 2]))
def test_nearest_is_what_the_definition_says(terms: set[str], word: str, edits: int) -> None:
    made = Vocabulary(sorted(terms), len)
    expected = sorted(
        (distance, -len(term), term)
        for term in terms
        if 0 < (distance := edits_of(word, term)) <= edits
    )
    assert made.nearest(word, edits) == [(term, distance) for distance, _, term in expected]
    assert made.beginning_with(word) == sorted(term for term in terms if term.startswith(word))
    assert {*made.ending_with(word)} == {term for term in terms if term.endswith(word)}
    assert (word in made) == (word in terms)


def edits_of(one: str, other: str) -> int:
    """Optimal string alignment, by its recurrence."""
    if not one or not other:
        return len(one) + len(other)
    best = min(
        edits_of(one[:-1], other) + 1,
        edits_of(one, other[:-1]) + 1,
        edits_of(one[:-1], other[:-1]) + (one[-1] != other[-1]),
    )
    if one[-2:] == other[-2:][::-1] and len(one) > 1 and len(other) > 1:
        best = min(best, edits_of(one[:-2], other[:-2]) + 1)
    return best


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Der Hund und die Katze sind nicht im Haus", "german"),
        ("The dog and the cat are not in the house", "english"),
        ("Buy a lamp. Fix a tap. Call a plumber.", "english"),
        ("I fixed my bike. I ate soup.", "english"),
        ("No sugar. Ask Anna on Monday.", "english"),
        ("Nem tudom a választ, de a könyv itt van.", "hungarian"),
        ("Kot jest na dachu i nie chce zejść, a pies śpi.", "polish"),
        ("собака и кошка не в доме", "russian"),
        ("собака і кіт не в домі та за ним", "none"),
        ("الكلب في البيت من أجل القط", "arabic"),
        ("سگ در خانه است و گربه را از آن", "persian"),
        ("कुत्ता और बिल्ली घर में हैं", "hindi"),
        ("Le chien et le chat ne sont pas dans la maison", "french"),
        ("Köpek ve kedi bu evde için bir", "turkish"),
        ("Con chó và con mèo không ở trong nhà của", "none"),
        ("犬と猫は家にいません", "english"),
        ("foo.py bar_baz 1.2.3", "english"),
        ("", "english"),
    ],
)
def test_the_language_of_texts(text: str, language: str) -> None:
    assert detect_language([text]) == language
