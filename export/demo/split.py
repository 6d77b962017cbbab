"""Which of the demo's articles are held out: nothing distilled here has seen a word of them.

Drawn once (``random.Random(0).sample(sorted(articles), 8)`` of the 36) and then written down, so
that the demo, the quality benchmark and the reference student share one split.
"""

from __future__ import annotations

__all__ = ["HELD_OUT_ARTICLES", "article", "is_held_out"]

HELD_OUT_ARTICLES = frozenset(
    {
        "American_Broadcasting_Company",
        "Geology",
        "Imperialism",
        "Normans",
        "Oxygen",
        "Pharmacy",
        "Sky_(United_Kingdom)",
        "Teacher",
    }
)


def article(document_id: str) -> str:
    """The article of a paragraph id, ``"Oxygen#12"`` → ``"Oxygen"``."""
    return document_id.rsplit("#", 1)[0]


def is_held_out(document_id: str) -> bool:
    """Whether the paragraph belongs to an article kept for evaluation."""
    return article(document_id) in HELD_OUT_ARTICLES
