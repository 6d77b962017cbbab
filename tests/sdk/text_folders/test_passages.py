from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery import sdk
from pocketquery.sdk.text_folders.outline import Paragraph
from pocketquery.sdk.text_folders.passages import cut_passages, estimated_tokens, fitting_title


def words(texts: list[str]) -> list[int]:
    """A counter with two special tokens."""
    return [2 + len(text.split()) for text in texts]


def cut(*paragraphs: str, title: str = "T", most: int = 12) -> list[str]:
    texts = [Paragraph(None, one) for one in paragraphs]
    return [one.text for one in cut_passages(texts, title, words, most)]


def test_neighbours_are_joined_as_far_as_they_fit() -> None:
    assert cut("a b c", "d e f", "g h i", "j k l") == ["a b c\nd e f\ng h i", "j k l"]


def test_long_paragraphs_are_cut_at_sentence_ends() -> None:
    assert cut("a b c d. e f g h. i j k l.") == ["a b c d. e f g h.", "i j k l."]
    chinese = "春天我们种树。每天都要浇水。"
    found = list(cut_passages([Paragraph(None, chinese)], "", estimated_tokens, 7))
    assert [one.text for one in found] == ["春天我们种树。", "每天都要浇水。"]


def test_a_long_title_leaves_half_to_the_text() -> None:
    title, rest = fitting_title(["File", "a b c d e f", "Last one"], words, 12)
    assert (title, rest) == ("File: Last one", "a b c d e f")
    title, rest = fitting_title(["a b c d e f g"], words, 10)
    assert f"{title} {rest}" == "a b c d e f g"
    assert words([title])[0] <= 5


def test_lines_of_parts() -> None:
    paragraph = Paragraph(None, "a b c d. e f g h. i j k l.", [(0, 3), (9, 7), (18, 9)])
    assert [one.line for one in cut_passages([paragraph], "", words, 7)] == [3, 7, 9]


_TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc", "Z")), min_size=1, max_size=30)


@pytest.mark.parametrize("most", [16, 40])
@given(st.lists(st.lists(_TEXT, min_size=1, max_size=60).map(" ".join), max_size=6))
def test_nothing_is_lost_and_all_is_read(most: int, paragraphs: list[str]) -> None:
    encoder = sdk.load()

    def tokens(texts: list[str]) -> list[int]:
        return [len(encoder.tokenize(text)) for text in texts]

    texts = [Paragraph(None, one) for one in paragraphs]
    found = [one.text for one in cut_passages(texts, "A title", tokens, most)]
    assert "".join("".join(found).split()) == "".join("".join(paragraphs).split())
    assert all(count <= most for count in tokens([f"A title {text}" for text in found]))
