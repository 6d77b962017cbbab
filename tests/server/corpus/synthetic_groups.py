"""Groups of every shape that a corpus can have, drawn by hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from pocketquery.server.corpus import Group, Source

__all__ = ["every", "group_lists"]


def every(source: Source) -> list[Group]:
    """All groups of a source, in order."""
    return [source[row] for row in range(len(source))]


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@st.composite
def _groups(draw: st.DrawFn) -> Group:
    texts = tuple(draw(st.lists(_TEXT, max_size=5)))
    roles: tuple[str, ...] = ()
    if draw(st.booleans()):
        roles = tuple(draw(st.sampled_from(["user", "agent"])) for _ in texts)
    lang = draw(st.sampled_from(["", "de", "en", "zh"]))
    return Group(draw(_TEXT), texts, roles, lang, title=draw(st.booleans()))


group_lists = st.lists(_groups(), max_size=8)
