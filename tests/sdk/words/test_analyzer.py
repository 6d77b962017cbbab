from __future__ import annotations

import threading
import time
import unicodedata

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.words import LANGUAGES, Analyzer
from pocketquery.sdk.words.characters import _stream_safe, bare, normalize
from pocketquery.sdk.words.tokens import cut, has_word

ENGLISH = Analyzer("english")


def counts(text: str, analyzer: Analyzer = ENGLISH) -> dict[str, int]:
    occurrences, _ = analyzer.occurrences([text])
    return {term: count for (term, _), count in occurrences.items()}


def length(text: str) -> int:
    return int(ENGLISH.occurrences([text])[1][0])


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The running dogs", {"the": 1, "run": 1, "dog": 1}),
        ("Café CAFE cafe\u0301", {"cafe": 3}),
        ("ﬁnd １２３", {"find": 1, "123": 1}),
        ("हिन्दी में", {"हिन्द": 1, "म": 1}),
        ("ज़मीन जमीन", {"जमीन": 2}),
        ("東京", {"東": 1, "京": 1, "東京": 1}),
        ("GPUで検索", {"gpu": 1, "で": 1, "検": 1, "索": 1, "で検": 1, "検索": 1}),
        ("ที่นี่", {"ที่": 1, "นี่": 1, "ที่นี่": 1}),
        ("서울은", {"서울은": 1, "서울": 1, "울은": 1}),
        ("API는", {"api": 1, "는": 1}),
        ("nul\0word", {"nul": 1, "word": 1}),
        ("Straße STRASSE", {"strass": 2}),
        ("ışık IŞIK", {"isik": 2}),
        ("كِتَابُ كتاب", {"كتاب": 2}),
        ("أحمد احمد", {"احمد": 2}),
        ("micro\u200bservice micro\u00adservice", {"microservic": 2}),
        ("٣ ３ 3", {"3": 3}),
        ("", {}),
        (" \n\t!?…", {}),
    ],
)
def test_words(text: str, terms: dict[str, int]) -> None:
    assert counts(text) == terms


@pytest.mark.parametrize(
    ("text", "words", "beside"),
    [
        ("get_user_name(self):", "get user name self", "get_user_name getusernam"),
        ("getUserName()", "getusernam", "get user name"),
        ("HTTPServer", "httpserver", "http server"),
        ("BaseXMLHttpRequest", "basexmlhttprequest", "base xml http request"),
        ("HTML5Parser", "html5parser", "html5 parser"),
        ("URLs", "url", ""),
        ("JavaScript", "javascript", ""),
        ("OAuthToken", "oauthtoken", ""),
        ("3.11.7", "3 11 7", "3.11.7"),
        ("(v1.0.10)", "v1 0 10", "1.0.10"),
        ("3.11.7-rc1", "3 11 7 rc1", "3.11.7 3.11.7rc1"),
        ("C++,", "c", "c++"),
        ("C#.", "c", "c#"),
        (".NET", "net", ".net"),
        ("flask.Blueprint", "flask blueprint", "flask.blueprint"),
        ("app.Flask.route()", "app flask rout", "app.flask.route flask.route"),
        ("CVE-2021-44228", "cve 2021 44228", "cve2021-44228"),
        ("e-mail", "e mail", "email"),
        ("C-8", "c 8", "c8"),
        ("$1,000,000,", "1 000 000", "1000000"),
        ("1,00 12,3456 1,000,5", "1 00 12 3456 1 000 5", ""),
        ("کتاب\u200cدار", "كتاب دار", "كتابدار"),
        ("--no-cache", "no cach", "--no-cache nocach"),
        ("don't", "don t", "dont"),
        ("couldn\u02bct", "couldn t", "couldnt"),
        ("U.S.A.", "u s a", "usa"),
        ("std::vector<int>", "std vector int", "std::vector"),
        ("I/O", "i o", "i/o"),
        ("src/app.py", "src app py", "app.py"),
        ("__init__", "init", "__init__"),
        ("me@example.org", "me exampl org", "me@example.org example.org"),
        ("#include", "includ", "#include"),
        ("dog's", "dog", ""),
        ("Node.js's", "node js", "node.js"),
        ("@app.route('/')", "app rout", "app.route @app.route"),
        ("5.", "5", ""),
        ("one...two", "one two", ""),
        ("👍🏽", "👍", "👍🏽"),
        ("👩\u200d💻🎉", "👩 💻 🎉", "👩\u200d💻"),
        ("🇩🇪❤️", "🇩🇪 ❤", ""),
    ],
)
def test_compounds_are_beside_their_parts(text: str, words: str, beside: str) -> None:
    assert ENGLISH.sequence(text) == words.split()
    assert counts(text).keys() == {*words.split(), *beside.split()}
    assert length(text) == len(words.split())


@pytest.mark.parametrize(
    ("language", "forms"),
    [
        ("german", "Häuser Hauses Häusern"),
        ("russian", "книга книги книгу"),
        ("spanish", "canción canciones"),
        ("turkish", "KIRMIZI kırmızı"),
        ("none", "running Running"),
    ],
)
def test_a_languages_forms_are_one_term(language: str, forms: str) -> None:
    assert len(counts(forms, Analyzer(language))) == 1


def test_a_word_of_another_script_has_that_scripts_stemmer() -> None:
    assert counts("книга книги") == counts("книги книгу")
    assert len(counts("running run", Analyzer("russian"))) == 1
    assert len(counts("running run", Analyzer("none"))) == 2


@pytest.mark.parametrize(
    ("language", "name"),
    [("German", "german"), ("de", "german"), ("pt-BR", "portuguese"), ("NO", "norwegian")],
)
def test_a_language_has_a_name_and_a_code(language: str, name: str) -> None:
    assert Analyzer(language).language == name


@pytest.mark.parametrize("language", ["klingon", "xx", "", None])
def test_a_language_that_is_none(language: str) -> None:
    with pytest.raises(InvalidInputError, match="expected one of arabic"):
        Analyzer(language)


ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@settings(max_examples=300, deadline=None)
@given(ANY_TEXT, st.sampled_from(["english", "turkish", "arabic", "none"]))
def test_terms_of_any_text(text: str, language: str) -> None:
    first = counts(text, Analyzer(language))
    assert counts(text, Analyzer(language)) == first
    assert all(first)
    assert not any(set(term) & set(" \t\n") for term in first)
    assert counts(f"{text} zebra", Analyzer(language)).keys() >= {*first, "zebra"} or not first


@settings(max_examples=500, deadline=None)
@given(ANY_TEXT)
@example("\ufe71\u0316" * 40)
@example("\u0130\u0149\u1e9e")
def test_what_is_normal_stays(text: str) -> None:
    assert normalize(normalize(text)) == normalize(text)
    word = bare(normalize(text).casefold())
    assert bare(word) == word


NAMES = st.lists(
    st.sampled_from(
        "get User HTTP XML Http 2 v3 I O éé _ __ - . :: -> @ # + ' 's / 水 한국".split()
    ),
    max_size=12,
).map("".join)


@settings(max_examples=500, deadline=None)
@given(NAMES | ANY_TEXT)
def test_what_a_chunk_is_cut_into_is_in_it(text: str) -> None:
    """Nothing is made up, and no letter is lost."""
    chunk = "".join(text.split())
    made, normal = cut(chunk), normalize(chunk)
    words = "".join(made.words)
    letters = [one for one in normal if has_word(one)]
    assert "'s" in normal.casefold() or [*filter(has_word, words)] == letters
    without = normal.translate(dict.fromkeys(map(ord, "-_.'@:>")))
    for one in made.joins:
        assert one in without
    for one in made.parts:
        assert any(one in word for word in made.words)


@settings(max_examples=300, deadline=None)
@given(ANY_TEXT, ANY_TEXT, ANY_TEXT)
def test_a_text_has_what_it_is_asked_for(before: str, text: str, after: str) -> None:
    occurrences, lengths = ENGLISH.occurrences([f"{before} {text} {after}"])
    query = ENGLISH.query(text)
    if not (query.excluded or query.excluded_phrases):
        assert {(term, 0) for term in query.terms} <= occurrences.keys()
        assert {(term, 0) for term in query.required} <= occurrences.keys()
    assert lengths.dtype == np.uint32


def test_occurrences_are_by_text() -> None:
    occurrences, lengths = ENGLISH.occurrences(["b a a", "", "b"])
    assert occurrences == {("a", 0): 2, ("b", 0): 1, ("b", 2): 1}
    assert lengths.tolist() == [3, 0, 1]


MARKS = (
    "\u0301\u0316\u034f\u05b0\u0591\u0e38\u0e48\u0f71\u0f73\u0f81\u1037\u3099\uff9e\u0344"
    "\U0001d165\ufe71\u0640\u200d"
)


@settings(max_examples=300, deadline=None)
@given(st.text(MARKS + "a\u1fa7\u0e01\u0e34\u05d0", max_size=400))
@example("a" + "\u0316\u0301" * 200)
@example("\u05d0" + ("\u0591" * 20 + "\u034f") * 10)  # what stands between is dropped
@example("\u0f40" + "\u0f73\u0f71" * 200)  # starters that decompose into marks
@example(("\u0316\u0301" * 10 + "\ufe71") * 20)  # a starter that decomposes into what is dropped
def test_no_run_that_is_put_in_order_is_long(text: str) -> None:
    """Canonical ordering takes the square of a run's length: 80 KB took two seconds."""
    for form in (unicodedata.normalize("NFKD", _stream_safe(text)), normalize(text)):
        marks = "".join("1" if unicodedata.combining(character) else "0" for character in form)
        assert max(map(len, marks.split("0"))) <= 100


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "a.",
        "a_",
        "a-",
        "0.",
        "-",
        "a'",
        "水",
        "서",
        "👩\u200d",
        "\u0301",
        "::",
        "aB",
        '"a',
        "+a ",
    ],
)
def test_the_time_is_linear(unit: str) -> None:
    def seconds(times: int) -> float:
        text = unit * times
        start = time.process_time()
        Analyzer("english").occurrences([text])
        Analyzer("english").query(text)
        return time.process_time() - start

    assert seconds(200_000) < 40 * max(seconds(20_000), 0.01)  # the square would be 100


def test_threads() -> None:
    analyzer, wrong = Analyzer("english"), []

    def work(word: str) -> None:
        for number in range(300):
            found = analyzer.sequence(f"{word}{'x' * (number % 40)}ing {word}s")
            wrong.extend([] if found[1] == word and found[0].startswith(word) else [found])

    threads = [threading.Thread(target=work, args=(word,)) for word in ("cat", "dog", "fox")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_every_language_stems() -> None:
    for language in LANGUAGES:
        assert counts("word", Analyzer(language))
