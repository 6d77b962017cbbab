"""Text to ids by docs/formats, "WordPiece"."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

from tests.conformance.independent.characters import Characters, pairs, table

_TABLES = table("wordpiece.json")
_LOWERCASED = pairs(_TABLES.pop("lowercased"))
_TABLES.pop("unicode")
_CLASS = {name: Characters(text) for name, text in _TABLES.items()}


class WordPiece:
    """The tokenizer in ``tokenizer.json``."""

    def __init__(self, data: bytes, max_length: int) -> None:
        file = json.loads(data)
        self._model = file["model"]
        self._vocabulary: dict[str, int] = self._model["vocab"]
        self._normalizer = file["normalizer"]
        strip = self._normalizer.get("strip_accents")
        self._strip = self._normalizer["lowercase"] if strip is None else strip
        self._before, self._after = _around(file.get("post_processor"))
        self._room = max_length - len(self._before) - len(self._after)
        self._left = (file.get("truncation") or {}).get("direction") == "Left"
        tokens = file.get("added_tokens") or []
        self._raw = [token for token in tokens if not token["normalized"]]
        self._normal = [
            {**token, "content": self.normalize(token["content"])}
            for token in tokens
            if token["normalized"]
        ]

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for part in literals(text, self._raw):
            if isinstance(part, int):
                ids.append(part)
                continue
            for rest in literals(self.normalize(part), self._normal):
                if isinstance(rest, int):
                    ids.append(rest)
                else:
                    for word in words(rest):
                        ids += self._pieces(word)
        kept = ids[-self._room :] if self._left else ids[: self._room]
        return [*self._before, *kept, *self._after]

    def normalize(self, text: str) -> str:
        if self._normalizer["clean_text"]:
            text = "".join(c for c in text if c not in _CLASS["removed"])
            text = "".join(" " if c in _CLASS["whitespace"] else c for c in text)
        if self._normalizer["handle_chinese_chars"]:
            text = "".join(f" {c} " if c in _CLASS["ideographs"] else c for c in text)
        if self._strip:
            parts = (
                unicodedata.normalize("NFD", c) if c in _CLASS["decomposed"] else c for c in text
            )
            ordered = _in_order("".join(parts))
            text = "".join(c for c in ordered if c not in _CLASS["marks"])
        if self._normalizer["lowercase"]:
            text = "".join(_LOWERCASED.get(c) or c.lower() for c in text)
        return text

    def _pieces(self, word: str) -> list[int]:
        unknown = [self._vocabulary[self._model["unk_token"]]]
        if len(word) > self._model["max_input_chars_per_word"]:
            return unknown
        found: list[int] = []
        start = 0
        while start < len(word):
            prefix = self._model["continuing_subword_prefix"] if start else ""
            for stop in range(len(word), start, -1):
                piece = prefix + word[start:stop]
                if piece in self._vocabulary:
                    found.append(self._vocabulary[piece])
                    start = stop
                    break
            else:
                return unknown
        return found


def literals(text: str, tokens: Sequence[dict[str, Any]]) -> Iterator[str | int]:
    """Ids of the added tokens in ``text``, and the stretches between them."""
    by_content: dict[str, dict[str, Any]] = {}
    for token in tokens:
        if token["content"]:
            by_content.setdefault(token["content"], token)
    longest = sorted(by_content, key=len, reverse=True)
    done = at = 0
    while at < len(text):
        content = next((one for one in longest if text.startswith(one, at)), None)
        if content is None:
            at += 1
            continue
        token, start, stop = by_content[content], at, at + len(content)
        at = stop
        if token["single_word"] and (
            _is_word(text[start - 1 : start]) or _is_word(text[stop:][:1])
        ):
            continue
        if token["lstrip"]:
            while start > done and text[start - 1] in _CLASS["whitespace"]:
                start -= 1
        if token["rstrip"]:
            while stop < len(text) and text[stop] in _CLASS["whitespace"]:
                stop += 1
        if done < start:
            yield text[done:start]
        yield token["id"]
        done = stop
    if done < len(text):
        yield text[done:]


def words(text: str) -> list[str]:
    """Cut at white space and around punctuation."""
    spaced = "".join(
        " " if c in _CLASS["whitespace"] else f" {c} " if c in _CLASS["punctuation"] else c
        for c in text
    )
    return [word for word in spaced.split(" ") if word]


def _is_word(character: str) -> bool:
    return bool(character) and character in _CLASS["word"]


def _in_order(text: str) -> str:
    def combining(character: str) -> int:
        moved = character in _CLASS["marks"] or character in _CLASS["reordered"]
        return unicodedata.combining(character) if moved else 0

    ordered: list[str] = []
    run: list[str] = []
    for character in text:
        if combining(character):
            run.append(character)
            continue
        ordered += [*sorted(run, key=combining), character]
        run = []
    return "".join([*ordered, *sorted(run, key=combining)])


def _around(section: Any) -> tuple[list[int], list[int]]:
    if section is None:
        return [], []
    if section["type"] == "BertProcessing":
        return [section["cls"][1]], [section["sep"][1]]
    sides: tuple[list[int], list[int]] = ([], [])
    side = 0
    for item in section["single"]:
        if "Sequence" in item:
            side = 1
        else:
            sides[side].extend(section["special_tokens"][item["SpecialToken"]["id"]]["ids"])
    return sides
