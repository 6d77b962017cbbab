"""Rows as groups: pairs, triples and queries from tables and JSON Lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.corpus.groups import Group, Kind
from pocketquery.server.corpus.readers.json_lines import id_and_language, json_objects, text_field
from pocketquery.server.corpus.readers.lines import bad_line, identifier, numbered_lines
from pocketquery.server.corpus.readers.queries import is_header

__all__ = ["Columns", "read_rows"]

_NAMES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "pairs": (("texts",), ("text1", "text2"), ("anchor", "positive"), ("query", "positive")),
    "triples": (("texts",), ("query", "positive", "negatives")),
    "queries": (("text",), ("query",), ("question",)),
}
_LEAST_TEXTS: Mapping[str, int] = {"pairs": 2, "triples": 3, "queries": 1}


@dataclass(frozen=True)
class Columns:
    """Which fields of a row are used.

    Attributes:
        texts: names of the fields with the group's texts, in order; none for what the layout has
            by itself. A table whose columns are named has a header line.
        id: name of the field that names the group; ``""`` for the line number.
        lang: name of the field with the language; ``""`` where all rows have one.
        where: rows are kept whose fields have these values, say ``{"label": "1"}``.
    """

    texts: tuple[str, ...] = ()
    id: str = ""
    lang: str = ""
    where: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if not self.texts and (self.id or self.lang or self.where):
            raise InvalidInputError(
                "columns for id, lang or where are named and none for the texts; name them too"
            )


def read_rows(
    path: Path | str, kind: Kind, columns: Columns | None = None, *, lang: str = ""
) -> Iterator[Group]:
    """Yield the pairs, triples or queries of a file, plain, gzip or xz, one in memory at a time.

    JSON Lines (known by the first character, "{") name their fields. Without ``columns`` these are
    ``texts`` (a list), ``text1`` and ``text2``, ``anchor`` and ``positive``, or ``query``,
    ``positive`` and ``negatives`` (a list), and ``text``, ``query`` or ``question`` for queries. A
    table is separated by tabs. Without ``columns`` it has no header and holds the texts alone.
    Queries of two columns are the exception: these are id and text, and the first line may be a
    header.

    An empty text is left out, so that a pair with one is a group of one text; a triple without a
    query or positive has no texts at all.

    Raises:
        InvalidInputError: a kind that has no rows, or too few columns for it.
        ArtifactNotFoundError: there is no such file.
        CorpusError: a line has not these fields; names file and line.
    """
    columns = columns or Columns()
    if kind not in _LEAST_TEXTS:
        raise InvalidInputError(f"kind is {kind!r}; expected one of {', '.join(_LEAST_TEXTS)}")
    if columns.texts and len(columns.texts) < _LEAST_TEXTS[kind] and columns.texts != ("texts",):
        raise InvalidInputError(
            f"{len(columns.texts)} columns are named for {kind}; expected at least "
            f"{_LEAST_TEXTS[kind]}"
        )
    first = next(numbered_lines(path), (0, ""))[1]
    if first.lstrip().startswith("{"):
        return _from_json(path, kind, columns, lang)
    return _from_table(path, kind, columns, lang)


def _from_json(path: Path | str, kind: Kind, columns: Columns, lang: str) -> Iterator[Group]:
    for number, entry in json_objects(path):
        if not _is_selected({name: str(value) for name, value in entry.items()}, columns):
            continue
        texts = _entry_texts(path, number, entry, _fields(path, number, entry, kind, columns))
        ids = () if columns.id else ("_id", "id")
        langs = [columns.lang or "lang"]
        id, own = id_and_language(path, number, entry, lang, ids=ids, langs=langs)
        if columns.id:
            id = identifier(path, number, entry.get(columns.id), columns.id)
        yield _row_group(path, number, id, texts, kind, own)


def _fields(
    path: Path | str, number: int, entry: Mapping[str, Any], kind: Kind, columns: Columns
) -> Sequence[str]:
    """The names of an entry's texts: those asked for, or the first layout that fits."""
    layouts = (columns.texts,) if columns.texts else _NAMES[kind]
    for names in layouts:
        if all(name in entry for name in names):
            return names
    expected = " or ".join(", ".join(names) for names in layouts)
    raise bad_line(path, number, f"the fields {sorted(entry)}", expected)


def _entry_texts(
    path: Path | str, number: int, entry: Mapping[str, Any], names: Sequence[str]
) -> list[str]:
    """The texts of these fields; a list gives all of its own."""
    texts: list[str] = []
    for name in names:
        values = entry[name] if isinstance(entry[name], list) else [entry[name]]
        texts += [text_field(path, number, value, name) for value in values]
    return texts


def _from_table(path: Path | str, kind: Kind, columns: Columns, lang: str) -> Iterator[Group]:
    header: list[str] = []
    for position, (number, line) in enumerate(numbered_lines(path)):
        fields = line.split("\t")
        if columns.texts and not header:
            header = [name.strip() for name in fields]
            _check_header(path, number, header, columns)
            continue
        if not columns.texts:
            if kind != "queries" or not is_header(position, fields):
                yield _bare_row(path, number, fields, kind, lang)
            continue
        if len(fields) != len(header):
            found = f"{len(fields)} tab-separated fields: {line[:60]!r}"
            raise bad_line(path, number, found, f"{len(header)}, as in the header")
        row = dict(zip(header, fields, strict=True))
        if _is_selected(row, columns):
            id = row[columns.id] if columns.id else str(number)
            own = row[columns.lang] if columns.lang else ""
            texts = [row[name] for name in columns.texts]
            yield _row_group(path, number, id, texts, kind, own or lang)


def _check_header(path: Path | str, number: int, header: list[str], columns: Columns) -> None:
    named = [*columns.texts, columns.id, columns.lang, *(columns.where or {})]
    missing = [name for name in named if name and name not in header]
    if missing:
        raise bad_line(path, number, f"the columns {header}", f"{', '.join(missing)} among them")


def _bare_row(path: Path | str, number: int, fields: list[str], kind: Kind, lang: str) -> Group:
    """The group of a line without a header."""
    if kind == "queries" and len(fields) == 2:
        return _row_group(path, number, fields[0].strip(), fields[1:], kind, lang)
    return _row_group(path, number, str(number), fields, kind, lang)


def _is_selected(row: Mapping[str, str], columns: Columns) -> bool:
    return all(row.get(name) == value for name, value in (columns.where or {}).items())


def _row_group(
    path: Path | str, number: int, id: str, texts: Sequence[str], kind: Kind, lang: str
) -> Group:
    least = _LEAST_TEXTS[kind]
    if len(texts) < least or (kind != "triples" and len(texts) > least):
        expected = f"{least} or more" if kind == "triples" else str(least)
        raise bad_line(path, number, f"{len(texts)} texts", f"{expected}; name the columns")
    plain = [" ".join(text.split()) for text in texts]
    if kind == "triples" and not all(plain[:2]):
        plain = []  # its places have meanings, which leaving one out would shift
    return Group(id, tuple(filter(None, plain)), lang=lang)
