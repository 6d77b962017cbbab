"""Sessions as groups: the turns of a dialogue in order, with who said them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from pocketquery.server.corpus.groups import Group
from pocketquery.server.corpus.readers.json_lines import (
    field_name,
    id_and_language,
    json_objects,
    text_field,
)
from pocketquery.server.corpus.readers.lines import bad_line

__all__ = ["KNOWN_ROLES", "read_sessions", "roles_of"]

KNOWN_ROLES: Mapping[str, str] = {
    "user": "user",
    "u": "user",
    "usr": "user",
    "customer": "user",
    "client": "user",
    "human": "user",
    "visitor": "user",
    "agent": "agent",
    "a": "agent",
    "system": "agent",
    "s": "agent",
    "assistant": "agent",
    "bot": "agent",
    "operator": "agent",
}
"""What a speaker is called, in lower case -> the side that this says."""


def read_sessions(path: Path | str, *, lang: str = "", rename: bool = True) -> Iterator[Group]:
    """Yield the sessions of a JSON Lines file, plain, gzip or xz, one in memory at a time.

    A line has ``turns``, a list of objects with ``role`` (or ``speaker``) and ``text``, or of
    [speaker, text]; ``id`` or ``_id`` names it, otherwise its line number, and ``lang`` goes before
    the argument. Roles become "user" and "agent", see :func:`roles_of`. Turns without text are
    left out, and neighbouring turns of one role become one, joined with a blank ("Auto-MLM",
    objective over sessions). A session of one speaker stays and has one role.

    Args:
        path: the file.
        lang: of sessions that do not say theirs.
        rename: False keeps the roles' own names, for who will say which of them is the user.

    Raises:
        ArtifactNotFoundError: there is no such file.
        CorpusError: a line is not a session; names file and line.
    """
    for number, entry in json_objects(path):
        yield _session(path, number, entry, lang, rename)


def roles_of(speakers: Sequence[str]) -> list[str]:
    """Every turn's role, "user" or "agent".

    Names such as "user", "U", "customer" or "agent", "system", "S", "assistant" say the role. In a
    session with any other name (nicks of a chat) the first speaker asks and is the user, and
    everybody else is an agent; the names themselves are not kept.
    """
    known = [KNOWN_ROLES.get(speaker.strip().lower()) for speaker in speakers]
    if None not in known:
        return [role or "" for role in known]
    return ["user" if speaker == speakers[0] else "agent" for speaker in speakers]


def _session(
    path: Path | str, number: int, entry: dict[str, Any], lang: str, rename: bool
) -> Group:
    id, own = id_and_language(path, number, entry, lang, ids=("id", "_id"))
    turns = entry[field_name(path, number, entry, "turns")]
    if not isinstance(turns, list):
        raise bad_line(path, number, f"turns is {type(turns).__name__}", "a list")
    spoken = [_turn(path, number, i, turn) for i, turn in enumerate(turns)]
    spoken = [(speaker, text) for speaker, text in spoken if text]
    speakers = [speaker for speaker, _ in spoken]
    roles = roles_of(speakers) if rename else [speaker.strip() for speaker in speakers]
    runs = [
        (role, " ".join(text for _, (_, text) in run))
        for role, run in groupby(zip(roles, spoken, strict=True), lambda turn: turn[0])
    ]
    return Group(id, tuple(text for _, text in runs), tuple(role for role, _ in runs), own)


def _turn(path: Path | str, number: int, place: int, turn: object) -> tuple[str, str]:
    """Speaker and text of one turn."""
    field = f"turns[{place}]"
    if isinstance(turn, dict):
        speaker, text = turn.get("role", turn.get("speaker")), turn.get("text")
    elif isinstance(turn, list) and len(turn) == 2:
        speaker, text = turn
    else:
        found = f"{field} is {str(turn)[:40]!r}"
        raise bad_line(path, number, found, "an object with role and text, or [speaker, text]")
    if not isinstance(speaker, str) or not speaker.strip():
        raise bad_line(path, number, f"{field} has no speaker", "a role such as user or agent")
    return speaker, " ".join(text_field(path, number, text, field).split())
