"""From text to terms: words, compounds, languages, and what a query asks for."""

from pocketquery.sdk.words.analyzer import Analyzer, analyzer_for
from pocketquery.sdk.words.language import detect_language
from pocketquery.sdk.words.query import Query
from pocketquery.sdk.words.stemming import AUTO, LANGUAGES, NONE
from pocketquery.sdk.words.vocabulary import Vocabulary, expand

__all__ = [
    "AUTO",
    "LANGUAGES",
    "NONE",
    "Analyzer",
    "Query",
    "Vocabulary",
    "analyzer_for",
    "detect_language",
    "expand",
]
