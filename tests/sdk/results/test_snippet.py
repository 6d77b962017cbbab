from __future__ import annotations

import html
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pocketquery.sdk import Document, Snippet, snippet
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.words import Analyzer
from pocketquery.sdk.words.common_words import is_common

GARDEN = (
    "The garden in spring. In March we planted tomatoes and beans along the south wall. The soil "
    "was still cold, so we covered the beds with fleece for three weeks.\nIn April the first "
    "leaves came out, and by May everything was green. Watering is done in the evening, never at "
    "noon. Call get_user_name() or flask.Blueprint; versions 3.11.7 and 3.12. Don't use C++ in "
    "e-mails."
)
CAT = (
    "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。何でも薄暗いじめじめした所で"
)


def marked(text: str, query: str, length: int = 100, language: str = "english") -> str:
    return snippet(text, query, length=length, language=language).marked("[", "]")


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("what did I plant in March", "[March] we [planted] tomatoes"),
        ("+plant -wall", "we [planted] tomatoes"),
        ("get_user_name", "[get_user_name]() or"),
        ("blueprint", "flask.[Blueprint]; versions 3"),
        ("3.11.7", "versions [3.11.7] and 3.12."),
        ("c++", "use [C++] in"),
        ("email", "in [e-mails]."),
        ('"never at noon"', ", [never at noon]. Call"),
        ('"in the" evening', "done [in the] [evening], never"),
    ],
)
def test_words_are_marked_in_all_their_forms(query: str, shown: str) -> None:
    assert shown in marked(GARDEN, query)


@pytest.mark.parametrize("query", ["the", "I", "How do I do it?", "xyzzy", "-garden", "???", ""])
def test_without_a_word_to_mark_it_is_the_beginning(query: str) -> None:
    beginning = (
        "The garden in spring. In March we planted tomatoes and beans along the south wall.…"
    )
    assert marked(GARDEN, query) == beginning


@pytest.mark.parametrize(
    ("text", "query", "language", "shown"),
    [
        (CAT, "見当", "none", "とんと[見当]がつかぬ"),
        (CAT, "猫", "none", "吾輩は[猫]である"),
        ("학교에서 친구를 만났다.", "학교", "none", "[학교에서] 친구를 만났다."),
        ("Die Gärten sind grün.", "garten", "german", "Die [Gärten] sind grün."),
        ("Ба\u0301бушки в саду", "бабушка", "russian", "[Ба\u0301бушки] в саду"),
        ("سافرتُ إلى المدينةِ", "المدينة", "arabic", "سافرتُ إلى [المدينةِ]"),
        ("soft\u00adware and zero\u200bwidth", "software zerowidth", "english",
         "[soft\u00adware] and [zero\u200bwidth]"),
        ("party 🎉 time", "🎉", "none", "party [🎉] time"),
        ("the dog’s bone, don’t", "don't", "english", "the dog’s bone, [don’t]"),
        ("स्कूल में किताबें", "किताब", "hindi", "स्कूल में [किताबें]"),
        ("สวัสดีชาวโลก", "ชาวโลก", "none", "สวัสดี[ชาวโลก]"),
        ("über Straßen", "strasse", "german", "über [Straßen]"),
    ],
)  # fmt: skip
def test_words_of_many_scripts(text: str, query: str, language: str, shown: str) -> None:
    assert shown in marked(text, query, language=language)


@pytest.mark.parametrize(
    ("query", "preamble", "shown"),
    [
        ("weather", 23, "It poured."),
        ("poured Bergen", 23, "It poured."),
        ("Bergen", 23, "rain 🌧 Tuesday, Bergen It poured."),  # why it was found
        ("weather", 3, "rain 🌧 Tuesday, Bergen It poured."),  # a field of the user's
    ],
)
def test_the_name_and_tags_of_a_file_are_left_out(query: str, preamble: int, shown: str) -> None:
    text = "rain 🌧\nTuesday, Bergen\nIt poured."
    document = Document("rain.md#1", text, {"preamble": preamble})
    assert snippet(document, query).text == shown


def test_the_part_with_most_words_of_the_query_is_shown() -> None:
    text = (
        "beans. " + "Nothing here. " * 30 + "Tomatoes and beans. " + "More of it. " * 30 + "beans"
    )
    one = snippet(text, "beans tomatoes", length=80)
    assert "[Tomatoes] and [beans]. More" in one.marked("[", "]")
    assert one.text[0] == one.text[-1] == "…"
    assert len(one.text) <= 80


def test_text_of_a_document_is_escaped_piece_by_piece() -> None:
    document = Document("1", "if a < b:\n\tplant(b & c)")
    one = snippet(document, "plant")
    assert one == Snippet("if a < b: plant(b & c)", ((10, 15),))
    assert str(one) == one.text
    assert one.marked("<b>", "</b>", html.escape) == "if a &lt; b: <b>plant</b>(b &amp; c)"


@pytest.mark.parametrize("arguments", [(7, "a"), ("a", 7), ("a\ud800", "a"), ("a", "\udc00")])
def test_what_has_no_text_is_our_error(arguments: tuple[str, str]) -> None:
    with pytest.raises(InvalidInputError):
        snippet(*arguments)
    for options in ({"length": 19}, {"length": "x"}, {"language": "klingon"}):
        with pytest.raises(InvalidInputError):
            snippet("a", "b", **options)


PIECES = st.sampled_from(
    ["plant", "planted", "Pflanzen", "the", "I", "get_user_name", "C++", "3.11.7", "e-mail",
     "don’t", "...", ")", "猫", "見当がつかぬ。", "ชาวโลก", "학교에서", "👩‍👩‍👧‍👦", "🇩🇪🇫🇷",
     "a\u0301\u0323", "soft\u00adware", "xyz" * 13, "\n\n", "—"]
)  # fmt: skip
PRINTABLE = st.text(max_size=4).filter(str.isprintable)
TEXTS = st.builds(
    str.join,
    st.sampled_from([" ", "", ", ", ". "]),
    st.lists(st.one_of(PIECES, PIECES, PRINTABLE), max_size=60),
)
QUERIES = st.lists(PIECES, min_size=1, max_size=4).map(" ".join)
ANALYZER = Analyzer("english")


def terms(text: str) -> set[str]:
    return {term for chunk in text.split() for some in ANALYZER.terms_of(chunk) for term in some}


@settings(max_examples=400, deadline=None)
@given(TEXTS, QUERIES, st.integers(20, 200))
@example("xyz" * 40 + " plant", "plant", 20)
@example("🇩🇪🇫🇷" * 20, "🇫🇷", 21)
def test_marks_are_words_of_the_query_and_nothing_is_cut(
    text: str, query: str, length: int
) -> None:
    one = snippet(text, query, length=length)
    line = " ".join(text.split())
    assert len(one.text) <= length
    places = [0, *(place for mark in one.marks for place in mark), len(one.text)]
    assert places == sorted(places)
    assert all(start < stop for start, stop in one.marks)
    asked = terms(
        " ".join(word for word in query.split() if not is_common(word.lower(), "english"))
    )
    for start, stop in one.marks:
        assert one.text[start:stop] in line
        assert terms(one.text[start:stop]) & asked, one
    if len(line) <= length:
        assert one.text == line
        strong = {term for term in asked if len(term) > 1 and not term.isdigit()}
        for first, last in [found.span() for found in re.finditer(r"\S+", line)]:
            if terms(line[first:last]) & strong:
                assert any(start < last and stop > first for start, stop in one.marks), one
        return
    body = one.text.removeprefix("…").removesuffix("…")
    cuts = [at for at in range(len(line)) if line.startswith(body, at)]
    assert any(_is_whole(line, at) and _is_whole(line, at + len(body)) for at in cuts), one


def _is_whole(line: str, at: int) -> bool:
    """Whether neither a visible character nor, where there is another place, a word is cut."""
    left, right = line[:at], line[at:]
    if not left or not right:
        return True
    if re.match("[\u0300-\u036f\u200d\u00ad\u0e31\u0e34-\u0e3a\u0e47-\u0e4e]", right):
        return False
    flags = re.search("[\U0001f1e6-\U0001f1ff]*$", left)
    if flags and len(flags[0]) % 2 and re.match("[\U0001f1e6-\U0001f1ff]", right):
        return False
    word = f"{left.rsplit(' ')[-1]}{right.split(' ')[0]}"
    return len(word) > 8 or not (re.search("[a-z]$", left) and re.match("[a-z]", right))
