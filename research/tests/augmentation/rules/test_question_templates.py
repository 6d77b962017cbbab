from __future__ import annotations

import pytest

from pocketquery_research.augmentation.rules.question_templates import Template
from tests.client.augmented_texts import views

POLITE = ("please tell me", "can you tell me", "could you tell me", "i would like to know")


def test_a_question_gets_every_other_opening() -> None:
    found = views(Template(), "how do i knit a sock", 200)
    forms = {"how can i", "how to", "how does one", "what is the way to"}
    polite = {f"{phrase} how do i" for phrase in POLITE}
    assert found == {f"{opening} knit a sock" for opening in forms | polite}


@pytest.mark.parametrize(
    ("text", "among"),
    [
        ("What's a quark?", "What is a quark?"),
        ("What is a quark?", "What's a quark?"),
        ("it does not start", "it doesn't start"),
        ("Could you tell me where the library is", "Where the library is"),
        ("Where can I park", "Please tell me where can I park"),
        ("How to swim", "What is the way to swim"),
    ],
)
def test_contractions_and_manners(text: str, among: str) -> None:
    assert among in views(Template(), text, 200)


def test_keywords_and_other_languages_stay() -> None:
    for text in ("weather paris", "howto knit", "comment tricoter", ""):
        assert views(Template(), text) == {text}
    assert Template().strength == "light"
