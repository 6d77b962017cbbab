from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketquery.sdk.words import Analyzer
from pocketquery.sdk.words.query import parse, without_operators

ENGLISH = Analyzer("english")
PLAIN: tuple[list[str], ...] = ([], [], [], [], [])


@pytest.mark.parametrize(
    ("text", "plain", "required", "excluded", "phrases", "excluded_phrases"),
    [
        ('"the lion king" film', "the lion king film", [], [], ["the lion king"], []),
        ("“the lion” «the king»", "the lion the king", [], [], ["the lion", "the king"], []),
        ("+must have", "must have", ["must"], [], [], []),
        ("lion -king", "lion", [], ["king"], [], []),
        ("-king lion", "lion", [], ["king"], [], []),
        ("lion \u2013king \u2212queen", "lion", [], ["king", "queen"], [], []),
        ('lion -"the king"', "lion", [], [], [], ["the king"]),
        ('+"the king"', "the king", [], [], ["the king"], []),
        ("+.NET +C++ -C#", ".NET C++", [".NET", "C++"], ["C#"], [], []),
        ("-word", "", [], ["word"], [], []),
        ('"one two three four five six seven eight"', "one two three four five six seven eight",
         [], [], ["one two three four five six seven eight"], []),
    ],
)  # fmt: skip
def test_operators(
    text: str,
    plain: str,
    required: list[str],
    excluded: list[str],
    phrases: list[str],
    excluded_phrases: list[str],
) -> None:
    behind_plus = phrases if text.startswith("+") else []
    assert parse(text) == (plain, required, excluded, phrases, excluded_phrases, behind_plus)


@pytest.mark.parametrize(
    "text",
    ["--flag", "-5 degrees", "+49 171 555", "e-mail", "C++", "a - b", "a + b", '5" by 6" board',
     '"open', 'close"', '""', '"', '"?!"', "-", "+", "--", "rock-'n'-roll", "x -- y", "2 -1", "-.5",
     "«»", "welche Gruppen leiten neben Personen und -organisationen manchmal Schulen",
     'He said "hello world" to the man who stood at the door'],
)  # fmt: skip
def test_text_is_text(text: str) -> None:
    assert parse(text) == (text, *PLAIN)


def test_what_a_document_must_have() -> None:
    query = ENGLISH.query("+get_user_name -flask.Blueprint +Running -e-mail")
    assert query.required == {"get_user_name", "run"}
    assert query.excluded == (frozenset({"flask.blueprint"}), frozenset({"email"}))
    assert query.plain.split() == ["get_user_name", "Running"]


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("We watched The Lion King.", True),
        ("the lion; king", True),
        ("the lions king", True),
        ("the king, the lion", False),
        ("lion king", False),
        ("", False),
    ],
)
def test_phrases_are_sequences_of_words(text: str, matches: bool) -> None:
    query = ENGLISH.query('"the lion king"')
    found = query.phrases_in(ENGLISH.sequence(text))
    assert found == (set(query.phrases) if matches else set())
    other = ENGLISH.query('film -"the lion king"')
    assert other.phrases_in(ENGLISH.sequence(text)) == found


def test_a_phrase_behind_a_plus_is_told_from_others() -> None:
    query = ENGLISH.query('"lions roar" +"the king" -"a queen"')
    assert query.phrases == (("lion", "roar"), ("the", "king"))
    assert query.required_phrases == (("the", "king"),)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(list("ab \"'+-“”«\n.5é🎉")), max_size=30).map("".join))
def test_any_query_is_read(text: str) -> None:
    parsed = parse(text)
    assert parsed.plain == parsed.plain.strip()
    query = ENGLISH.query(text, prefix=True)
    assert query.plain == parsed.plain
    assert all(weight > 0 for weight in query.terms.values())
    assert all(query.phrases)
    assert all(query.excluded)


def test_weights_of_a_compound_and_its_words() -> None:
    assert ENGLISH.query("app.Flask.route now").terms == {
        "app": 0.5, "flask": 0.5, "rout": 0.5, "flask.route": 0.5,
        "app.flask.route": 1.0, "now": 1.0,
    }  # fmt: skip
    assert ENGLISH.query("e-mail").terms == {"e": 0.75, "mail": 0.75, "email": 1.0}
    assert ENGLISH.query("my e-mail").terms["email"] == 0.5


@pytest.mark.parametrize(
    ("text", "prefix"),
    [
        ("open the conf", "conf"),
        ("Café", "cafe"),
        ("get_user_na", "na"),
        ("done ", ""),
        ("done.", ""),
        ('"the lion king"', ""),
        ("lion -kin", ""),
        ("", ""),
    ],
)
def test_the_word_that_is_being_typed(text: str, prefix: str) -> None:
    assert ENGLISH.query(text, prefix=True).prefix == prefix
    assert ENGLISH.query(text).prefix == ""


@given(st.lists(st.sampled_from(list("ab \"'+-“”«\n.5é🎉")), max_size=30).map("".join))
def test_without_operators_a_text_demands_nothing(text: str) -> None:
    plain = without_operators(text)
    assert parse(plain)[1:] == PLAIN
    assert [c for c in plain if c.isalnum()] == [c for c in text if c.isalnum()]
