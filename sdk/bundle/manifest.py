"""``manifest.json``: what a bundle is, which space it lives in, and the hash of every file.

The record and its checks. A manifest is data from elsewhere: every field is checked, and a message
names the field, what was found and what was expected. Every size and number has a bound, far above
what an encoder needs and far below what would hurt a device, because some decide how much memory is
asked for. Fields this release does not know are ignored, a newer ``format_version`` is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.sdk.fields import Fields, shortened
from pocketquery.sdk.languages.scripts import LANGUAGE_CODE

__all__ = [
    "FORMAT",
    "FORMAT_VERSION",
    "MANIFEST_FILE",
    "SIGNATURE_FILE",
    "ENCODER_FILE",
    "GOLDEN_FILE",
    "ADAPTER_FILE",
    "TRAINING_STEP_FILE",
    "TRAINING_STATE_FILE",
    "MOST_DIMENSIONS",
    "MOST_PROMPT",
    "MOST_PROMPTS",
    "MOST_IDS",
    "MOST_MANIFEST_BYTES",
    "STRING_GRAPH_FILE",
    "FileEntry",
    "Manifest",
    "Space",
    "TokenizerSpec",
]

FORMAT = "pocketquery-bundle"
FORMAT_VERSION = 1
MANIFEST_FILE = "manifest.json"
SIGNATURE_FILE = "signature"
ENCODER_FILE = "encoder.onnx"
GOLDEN_FILE = "golden.json"
ADAPTER_FILE = "adapter.safetensors"
TRAINING_STEP_FILE = "train_step.onnx"
TRAINING_STATE_FILE = "train_state.safetensors"
STRING_GRAPH_FILE = "encoder_with_tokenizer.onnx"
MOST_MANIFEST_BYTES = 1 << 20  # an honest one has a few thousand
MOST_IDS = 1 << 15  # of a text
MOST_DIMENSIONS = 1 << 14
_MOST_FILES = 64
_MOST_BYTES = (1 << 31) - 1  # of a file; protobuf, which ONNX is, holds no more
_MOST_OF_FILE = {GOLDEN_FILE: 1 << 24, ADAPTER_FILE: 1 << 26}  # honest ones: .2 MB, .1 MB
_MOST_OF_TOKENIZER = 1 << 26  # bytes; the largest vocabularies in use take 20 MB
_MOST_CHARACTERS = 1024  # of a name, a version, an id, a licence
MOST_PROMPTS = 64
MOST_PROMPT = 1 << 14  # characters
_MOST_LANGUAGES = 1 << 9
_MOST_FILE_NAME = 128  # characters

_KINDS = ("wordpiece", "sentencepiece")
_LAYOUTS = ("xlm-roberta", "plain")
_HEX = frozenset("0123456789abcdef")


# What every start defines is a NamedTuple: .1 ms each, of a dataclass's .7 and a millisecond for
# the module dataclasses.


class Space(NamedTuple):
    """The vector space of the teacher: its id and the number of dimensions."""

    id: str
    dimension: int


class TokenizerSpec(NamedTuple):
    """Which tokenizer, in which file; ``options`` are the entry's further fields."""

    kind: str
    file: str
    options: Mapping[str, object] = MappingProxyType({})


class FileEntry(NamedTuple):
    """The SHA-256 (hexadecimal) and the size in bytes of one file."""

    sha256: str
    bytes: int


class Manifest(NamedTuple):
    """The content of ``manifest.json``; see the bundle's section in ARCHITECTURE.md.

    It is checked where it is read, and before it is written. ``languages`` are those that the
    encoder was made for, as BCP 47 codes (``en``, ``pt-BR``); none where nobody says.
    """

    name: str
    space: Space
    max_length: int
    tokenizer: TokenizerSpec
    files: Mapping[str, FileEntry]
    license: str
    encoder_version: str = "1"
    parent_version: str | None = None
    prompts: Mapping[str, str] = MappingProxyType({})
    default_prompt_name: str | None = None
    quality: Mapping[str, Any] = MappingProxyType({})
    signature_key_id: str | None = None
    languages: tuple[str, ...] = ()

    def check(self) -> None:
        """Check what ties fields together, and what a caller could pass as well as a file.

        Raises:
            CorruptArtifactError: a field is missing or not as described.
        """
        for name, entry in self.files.items():
            _check_file(name, entry, self.tokenizer.file)
        for name in (ENCODER_FILE, GOLDEN_FILE, self.tokenizer.file):
            if name not in self.files:
                raise _wrong("files", f"no entry {name!r}", "an entry for it")
        if self.default_prompt_name is not None and self.default_prompt_name not in self.prompts:
            expected = f"null or one of {shortened(str(sorted(self.prompts)))}"
            raise _wrong("default_prompt_name", repr(self.default_prompt_name), expected)
        if not 1 <= self.space.dimension <= MOST_DIMENSIONS:
            expected = f"an integer above 0, at most {MOST_DIMENSIONS}"
            raise _wrong("space.dimension", str(self.space.dimension), expected)
        if not 3 <= self.max_length <= MOST_IDS:
            expected = f"at least 3 (two special tokens and one of the text), at most {MOST_IDS}"
            raise _wrong("max_length", str(self.max_length), expected)
        for language in self.languages:
            if not isinstance(language, str) or not LANGUAGE_CODE.fullmatch(language):
                expected = 'codes as of BCP 47: "en", "pt-BR"'
                raise _wrong("languages", shortened(repr(language)), expected)

    @classmethod
    def from_json(cls, data: bytes) -> Manifest:
        """The manifest in ``data``, the bytes of ``manifest.json``.

        Raises:
            CorruptArtifactError: not JSON, above 1 MiB, of another format, or a field is not as
                described.
            UnsupportedVersionError: written in a newer format version.
        """
        fields = Fields.of_json(data, MANIFEST_FILE, most_bytes=MOST_MANIFEST_BYTES)
        fields.check_format(FORMAT, FORMAT_VERSION)
        space = fields.child("space")
        manifest = cls(
            name=fields.text("name", _MOST_CHARACTERS),
            encoder_version=fields.text("encoder_version", _MOST_CHARACTERS),
            parent_version=fields.text_or_none("parent_version", _MOST_CHARACTERS),
            space=Space(space.text("id", _MOST_CHARACTERS), space.integer("dimension")),
            prompts=fields.texts("prompts", MOST_PROMPTS, MOST_PROMPT),
            default_prompt_name=fields.text_or_none("default_prompt_name", _MOST_CHARACTERS),
            max_length=fields.integer("max_length"),
            tokenizer=_tokenizer(fields.child("tokenizer")),
            files=_files(fields.child("files", _MOST_FILES)),
            quality=fields.mapping("quality"),
            license=fields.text("license", _MOST_CHARACTERS),
            signature_key_id=fields.text_or_none("signature_key_id", _MOST_CHARACTERS),
            languages=tuple(fields.sequence("languages", _MOST_LANGUAGES))
            if "languages" in fields
            else (),
        )
        manifest.check()
        return manifest

    def to_json(self) -> bytes:
        """The bytes of ``manifest.json``: the same manifest gives the same bytes."""
        tokenizer = {"kind": self.tokenizer.kind, "file": self.tokenizer.file}
        content = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "name": self.name,
            "encoder_version": self.encoder_version,
            "parent_version": self.parent_version,
            "space": {"id": self.space.id, "dimension": self.space.dimension},
            "prompts": dict(self.prompts),
            "default_prompt_name": self.default_prompt_name,
            "max_length": self.max_length,
            **({"languages": list(self.languages)} if self.languages else {}),
            "tokenizer": tokenizer | dict(self.tokenizer.options),
            "files": {
                name: {"sha256": entry.sha256, "bytes": entry.bytes}
                for name, entry in sorted(self.files.items())
            },
            "quality": dict(self.quality),
            "license": self.license,
            "signature_key_id": self.signature_key_id,
        }
        try:
            text = json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False)
            return (text + "\n").encode("utf-8")
        except (TypeError, ValueError) as error:
            raise _wrong(
                "quality", str(error), "what JSON can hold (finite numbers, text)"
            ) from error


def _tokenizer(fields: Fields) -> TokenizerSpec:
    kind = fields.choice("kind", _KINDS)
    options = {key: value for key, value in fields.items() if key not in ("kind", "file")}
    if kind == "sentencepiece":
        options["layout"] = fields.choice("layout", _LAYOUTS)
    return TokenizerSpec(kind, fields.text("file", _MOST_FILE_NAME), options)


def _files(fields: Fields) -> dict[str, FileEntry]:
    entries = {}
    for name in fields:
        entry = fields.child(name)
        entries[name] = FileEntry(entry.text("sha256"), entry.integer("bytes"))
    return entries


def _check_file(name: str, entry: FileEntry, tokenizer: str) -> None:
    # One flat folder: a name that could leave it, hide in it or shadow the manifest is refused.
    if (
        not name
        or len(name) > _MOST_FILE_NAME
        or name.startswith(".")
        or any(c in "/\\:" or not c.isprintable() for c in name)
        or name in (MANIFEST_FILE, SIGNATURE_FILE)
    ):
        expected = "plain file names inside the bundle's folder"
        raise _wrong("files", f"the name {shortened(name)!r}", expected)
    if len(entry.sha256) != 64 or not set(entry.sha256) <= _HEX:
        found = repr(shortened(entry.sha256))
        raise _wrong(f"files.{name}.sha256", found, "64 lowercase hexadecimal digits")
    most = _MOST_OF_TOKENIZER if name == tokenizer else _MOST_OF_FILE.get(name, _MOST_BYTES)
    if not 0 <= entry.bytes <= most:
        expected = f"an integer not below 0, at most {most}"
        raise _wrong(f"files.{name}.bytes", str(entry.bytes), expected)


def _wrong(name: str, found: str, expected: str) -> CorruptArtifactError:
    return CorruptArtifactError(
        f"{MANIFEST_FILE}: field {name!r}: found {found}, expected {expected}"
    )
