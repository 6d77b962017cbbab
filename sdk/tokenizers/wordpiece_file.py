"""Reading a Hugging Face ``tokenizer.json`` that holds a BERT WordPiece tokenizer.

Whatever in the file this package would not follow to the letter is refused by name, because a
tokenizer that is nearly right gives vectors that are quietly wrong. What could make tokenising slow
(the length of words, the number of literals) has a bound far above what tokenizers use.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from reprlib import repr as shown  # of bounded length and depth
from typing import Any, NamedTuple

from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.sdk.tokenizers.added_tokens import AddedToken
from pocketquery.sdk.tokenizers.bert_normalizer import BertNormalizer

__all__ = ["WordPieceFile", "read_wordpiece_file"]

_MOST_IDS = 1 << 24
_LONGEST_WORD = 1000  # characters; BERT's is 100, and cutting a word takes up to its square
_LONGEST_PREFIX = 16  # characters; BERT's is ##, and each try of a piece copies it
_MOST_ADDED = 4096
_LONGEST_ADDED = 256  # characters of an added token
_MOST_SPECIALS = 64  # ids around a text


class WordPieceFile(NamedTuple):
    """What a ``tokenizer.json`` says.

    Attributes:
        vocabulary: id of each piece; pieces inside a word begin with ``prefix``.
        max_word_length: a longer word (in characters) becomes ``unknown_token``.
        before: ids put before a text ([CLS]).
        after: ids put after it ([SEP]).
        truncate_left: whether a text that is too long loses its beginning instead of its end.
    """

    vocabulary: dict[str, int]
    unknown_token: str
    prefix: str
    max_word_length: int
    normalizer: BertNormalizer
    added_tokens: tuple[AddedToken, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    truncate_left: bool


def read_wordpiece_file(data: bytes) -> WordPieceFile:
    """Parse the bytes of a ``tokenizer.json``.

    Raises:
        CorruptArtifactError: not JSON, not WordPiece, or with a part this package cannot follow.
    """
    document = _parse(data)
    model = _section(document, "model", "WordPiece")
    _section(document, "pre_tokenizer", "BertPreTokenizer")
    vocabulary = _vocabulary(model)
    before, after = _specials(document.get("post_processor"))
    truncation = document.get("truncation") or {}
    return WordPieceFile(
        vocabulary=vocabulary,
        unknown_token=_unknown_token(model, vocabulary),
        prefix=_prefix(model),
        max_word_length=_word_length(model),
        normalizer=_normalizer(_section(document, "normalizer", "BertNormalizer")),
        added_tokens=_added_tokens(document.get("added_tokens") or [], vocabulary),
        before=before,
        after=after,
        truncate_left=isinstance(truncation, dict) and truncation.get("direction") == "Left",
    )


def _broken(found: str, expected: str) -> CorruptArtifactError:
    return CorruptArtifactError(
        f"tokenizer.json: found {found}, expected {expected}; use the file a BERT tokenizer is "
        "saved with, unchanged"
    )


def _bare(value: object) -> str:
    return shown(value).strip("'")


def _parse(data: bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise _broken(f"bytes that are not JSON ({error})", "a JSON object") from error
    if not isinstance(document, dict):
        raise _broken(f"a JSON {type(document).__name__}", "a JSON object")
    return document


def _section(document: Mapping[str, Any], name: str, kind: str) -> Mapping[str, Any]:
    section = document.get(name)
    if not isinstance(section, dict):
        raise _broken(f'no "{name}"', f'a "{name}" of type {kind}')
    if section.get("type", kind) != kind:
        raise _broken(f'a "{name}" of type {_bare(section["type"])}', f"type {kind}")
    return section


def _field(section: Mapping[str, Any], name: str, kind: type[Any], where: str) -> Any:
    value = section.get(name)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        found = f'"{name}": {shown(value)}' if name in section else f'no "{name}"'
        raise _broken(f'{found} in "{where}"', f"a value of type {kind.__name__}")
    return value


def _is_id(value: object) -> bool:
    return type(value) is int and 0 <= value < _MOST_IDS


def _vocabulary(model: Mapping[str, Any]) -> dict[str, int]:
    vocabulary: dict[str, int] = _field(model, "vocab", dict, "model")
    numbers = vocabulary.values()
    # All at once, which a cold start feels; one by one only to name the culprit.
    if set(map(type, numbers)) == {int} and list(numbers) == list(range(len(vocabulary))):
        return vocabulary
    if (
        set(map(type, numbers)) - {int}
        or min(numbers, default=0) < 0
        or max(numbers, default=0) >= _MOST_IDS
    ):
        piece, number = next(item for item in vocabulary.items() if not _is_id(item[1]))
        raise _broken(
            f"the id {shown(number)} for {shown(piece)}",
            f"a whole number from 0 to {_MOST_IDS - 1}",
        )
    if len(set(vocabulary.values())) != len(vocabulary):
        raise _broken("two pieces with the same id", "one id for each piece")
    return vocabulary


def _prefix(model: Mapping[str, Any]) -> str:
    prefix: str = _field(model, "continuing_subword_prefix", str, "model")
    if len(prefix) > _LONGEST_PREFIX:
        raise _broken(
            f'a "continuing_subword_prefix" of {len(prefix)} characters',
            f"at most {_LONGEST_PREFIX}",
        )
    return prefix


def _word_length(model: Mapping[str, Any]) -> int:
    length: int = _field(model, "max_input_chars_per_word", int, "model")
    if not 0 <= length <= _LONGEST_WORD:
        raise _broken(f'"max_input_chars_per_word": {length}', f"0 to {_LONGEST_WORD}")
    return length


def _unknown_token(model: Mapping[str, Any], vocabulary: Mapping[str, int]) -> str:
    token: str = _field(model, "unk_token", str, "model")
    if token not in vocabulary:
        raise _broken(f"the unknown token {token!r} missing from the vocabulary", "it to be there")
    return token


def _normalizer(section: Mapping[str, Any]) -> BertNormalizer:
    options = {
        name: _field(section, name, bool, "normalizer")
        for name in ("clean_text", "handle_chinese_chars", "lowercase")
    }
    strip_accents = section.get("strip_accents")
    if strip_accents is not None:
        strip_accents = _field(section, "strip_accents", bool, "normalizer")
    return BertNormalizer(strip_accents=strip_accents, **options)


def _added_tokens(entries: object, vocabulary: Mapping[str, int]) -> tuple[AddedToken, ...]:
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise _broken('"added_tokens" of another shape', "a list of objects")
    if len(entries) > _MOST_ADDED:
        raise _broken(f'{len(entries)} "added_tokens"', f"at most {_MOST_ADDED}")
    tokens: dict[str, AddedToken] = {}
    free = len(vocabulary)
    for entry in entries:
        token = _added_token(entry)
        if token.content in tokens:
            continue
        # The library gives out these ids itself and does not read them from the file.
        expected = vocabulary.get(token.content, free)
        if token.id != expected:
            raise _broken(f"the added token {token.content!r} with id {token.id}", f"id {expected}")
        free = max(free, expected + 1)
        tokens[token.content] = token
    return tuple(tokens.values())


def _added_token(entry: Mapping[str, Any]) -> AddedToken:
    flags = {
        name: _field(entry, name, bool, "added_tokens")
        for name in ("single_word", "lstrip", "rstrip", "normalized")
    }
    content = _field(entry, "content", str, "added_tokens")
    if len(content) > _LONGEST_ADDED:
        raise _broken(
            f"an added token of {len(content)} characters", f"at most {_LONGEST_ADDED} in each"
        )
    return AddedToken(content, _field(entry, "id", int, "added_tokens"), **flags)


def _specials(section: object) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ids before and after a text."""
    if section is None:
        return (), ()
    kind = _bare(section.get("type") if isinstance(section, dict) else section)
    try:
        if isinstance(section, dict) and kind == "BertProcessing":
            return _ids([section["cls"][1]]), _ids([section["sep"][1]])
        if isinstance(section, dict) and kind == "TemplateProcessing":
            return _template(section)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise _broken(f'an incomplete "post_processor" ({error!r})', f"a {kind} section") from error
    raise _broken(f'a "post_processor" of type {kind}', "TemplateProcessing or BertProcessing")


def _template(section: Mapping[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    template = section["single"]
    places = [i for i, item in enumerate(template) if "Sequence" in item]
    if len(places) != 1:
        raise ValueError(f"{len(places)} places for the text")
    known = section["special_tokens"]
    if len(template) > _MOST_SPECIALS:
        raise ValueError(f"{len(template)} parts of a text, at most {_MOST_SPECIALS}")
    ids = [
        _ids(known[item["SpecialToken"]["id"]]["ids"]) if i != places[0] else ()
        for i, item in enumerate(template)
    ]
    return sum(ids[: places[0]], ()), sum(ids[places[0] :], ())


def _ids(values: list[object]) -> tuple[int, ...]:
    if len(values) > _MOST_SPECIALS or not all(map(_is_id, values)):
        raise ValueError(f"ids {shown(values)}")
    return tuple(int(value) for value in values)  # type: ignore[call-overload]
