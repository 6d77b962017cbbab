from __future__ import annotations

import pytest

from pocketquery.sdk.words import Analyzer


@pytest.mark.parametrize(
    ("language", "text", "terms"),
    [
        ("german", "What was the name of the harbour?", ["what", "was", "the", "of"]),
        ("english", "Wie heißt der Hafen in der Stadt", ["wie", "der", "in"]),
        ("english", "¿Qué es el puerto de la ciudad?", ["que", "es", "el", "de", "la"]),
        ("english", "die casting", []),  # one word tells no language
        ("german", '"what was" the harbour of the town', ["the", "of"]),
        ("german", "+the harbour of the town", ["of"]),
        ("none", "東京 の 名前", []),
        ("german", "", []),
    ],
)
def test_common_words_of_the_language_that_has_most(
    language: str, text: str, terms: list[str]
) -> None:
    analyzer = Analyzer(language)
    assert analyzer.common_terms(analyzer.query(text)) == terms
