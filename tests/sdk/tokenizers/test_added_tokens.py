from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken as ReferenceToken
from tokenizers import Tokenizer, models

from pocketquery.sdk.tokenizers.added_tokens import AddedToken, AddedTokens

FLAGS = st.fixed_dictionaries({name: st.booleans() for name in ("single_word", "lstrip", "rstrip")})
CONTENTS = st.text(alphabet="<>ab ", min_size=1, max_size=4).filter(str.strip)
TEXTS = st.text(alphabet=st.sampled_from("<>aab  \t\u3000é\u0301_-\u200dⒶ½Ⅷ1"), max_size=20)


@given(st.dictionaries(CONTENTS, FLAGS, min_size=1, max_size=4), TEXTS)
def test_finds_what_the_library_finds(tokens: dict[str, dict[str, bool]], text: str) -> None:
    reference = Tokenizer(models.WordPiece({"[UNK]": 0}, unk_token="[UNK]"))
    reference.add_tokens(
        [ReferenceToken(content, normalized=False, **flags) for content, flags in tokens.items()]
    )
    ours = AddedTokens(
        AddedToken(content, number, **flags)
        for number, (content, flags) in enumerate(tokens.items(), 1)
    )
    found = [part if isinstance(part, int) else 0 for part in ours.split(text)]
    assert found == reference.encode(text).ids


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        ("plain", ["plain"]),
        ("a<x>b", ["a", 1, "b"]),
        ("<x><x>", [1, 1]),
        ("<x><xy>", [1, 2]),
        ("<xy", [1, "y"]),
    ],
)
def test_longest_of_the_leftmost(text: str, parts: list[str | int]) -> None:
    tokens = AddedTokens([AddedToken("<x", 1), AddedToken("<x>", 1), AddedToken("<xy>", 2)])
    assert list(tokens.split(text)) == parts


def test_white_space_goes_with_the_token_that_strips_it() -> None:
    tokens = AddedTokens([AddedToken("<l>", 1, lstrip=True), AddedToken("<r>", 2, rstrip=True)])
    assert list(tokens.split("a \u3000<l> b <r> \t c")) == ["a", 1, " b ", 2, "c"]


def test_no_tokens() -> None:
    assert list(AddedTokens([]).split("text")) == ["text"]
    assert list(AddedTokens([AddedToken("", 1)]).split("text")) == ["text"]
