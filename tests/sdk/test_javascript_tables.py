from __future__ import annotations

from tests.sdk import javascript_words
from tests.sdk.javascript_tables import TARGET, tables


def test_the_javascript_tables_are_those_of_python() -> None:
    assert TARGET.read_text(encoding="utf-8") == tables(), (
        "run: python -m tests.sdk.javascript_tables"
    )


def test_the_classes_of_characters_in_words_are_those_of_python() -> None:
    assert javascript_words.TARGET.read_text("utf-8") == javascript_words.tables(), (
        "run: python -m tests.sdk.javascript_words"
    )
