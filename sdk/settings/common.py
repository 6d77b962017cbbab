"""Settings that many commands have."""

from __future__ import annotations

import argparse
from typing import Annotated, TypeAlias

from pocketquery.sdk.settings.declaration import Option
from pocketquery.sdk.validation import SEED, number

__all__ = [
    "AsJson",
    "Bfloat16",
    "CorpusFile",
    "Device",
    "IndexPublicKey",
    "JudgementsFile",
    "Paths",
    "PublicKey",
    "QueriesFile",
    "Seed",
    "Share",
    "integers",
]

Seed: TypeAlias = Annotated[int, SEED, "of everything random"]
Share: TypeAlias = Annotated[float, number(0, 1), Option("SHARE")]
Device: TypeAlias = Annotated[str, "torch device"]
AsJson: TypeAlias = Annotated[bool, "print one JSON object"]
Bfloat16: TypeAlias = Annotated[
    bool, "autocast: accelerators, processors with AMX or AVX512-BF16; others ignore it"
]
CorpusFile: TypeAlias = Annotated[
    str | None, "corpus.jsonl: _id, title, text; plain, gzip or xz", Option("FILE")
]
QueriesFile: TypeAlias = Annotated[
    str | None, "queries as tsv (id, text) or jsonl; plain, gzip or xz", Option("FILE")
]
JudgementsFile: TypeAlias = Annotated[
    str | None, "judgements: query id, document id, grade", Option("FILE")
]
Paths: TypeAlias = Annotated[tuple[str, ...], Option("PATH")]
PublicKey: TypeAlias = Annotated[
    str | None,
    "what is not signed by this Ed25519 key is refused: 64 hexadecimal digits or a PEM file "
    "(default: $POCKETQUERY_PUBLIC_KEY)",
    Option("KEY"),
]
IndexPublicKey: TypeAlias = Annotated[
    str | None, "the index must be signed by this key too; hashes its files first", Option("KEY")
]


def integers(text: str) -> tuple[int, ...]:
    """``"0,2,5"`` as numbers: the ``parse`` of an option."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f'found "{text}", expected numbers such as 0,2,5'
        ) from error
