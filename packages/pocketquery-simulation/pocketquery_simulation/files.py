"""What a simulation reads: encoder, index, users and held-out queries, by their paths.

Paths and numbers alone, so that the workers of a cluster can read the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.encoder import Encoder
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.files import sha256_file
from pocketquery.sdk.index.index import Index
from pocketquery.sdk.settings.common import PublicKey
from pocketquery.sdk.settings.declaration import Option, Settings
from pocketquery.sdk.validation import whole
from pocketquery.server.corpus import read_judgements, read_queries
from pocketquery.server.federation.releases.gate import GateCollection
from pocketquery.server.federation.releases.gate_data import judged_by_people, judged_by_shipped
from pocketquery_simulation.users import SimulatedStore, by_topic, read_clients

__all__ = ["SimulationFiles", "Users"]

_HELD_OUT = 10  # every tenth query, where users are synthetic
_MOST_HELD_OUT = 500


@dataclass(frozen=True)
class Users:
    """Simulated users by name, and queries that none of them has."""

    stores: Mapping[str, SimulatedStore]
    held_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class SimulationFiles(Settings):
    """The files that a simulation reads, and how queries are dealt to users.

    Raises:
        InvalidInputError: not one of ``clients`` and ``queries``, judgements without queries, or
            nothing to hold out.
    """

    bundle: Annotated[Path | str, "what the devices have, with a training step", Option("PATH")]
    index: Annotated[Path, "the index that the devices search", Option("FOLDER")]
    clients: Annotated[
        Path | None, "users and their queries, JSON Lines", Option("FILE", either="whose")
    ] = None
    queries: Annotated[
        Path | None, "queries (tsv or JSON Lines) to deal out", Option("FILE", either="whose")
    ] = None
    users: Annotated[int, whole(), "users to deal --queries to"] = 1000
    queries_each: Annotated[int, whole(), "queries of each of them"] = 40
    gate_queries: Annotated[
        Path | None, "held-out queries for the acceptance gate", Option("FILE")
    ] = None
    gate_qrels: Annotated[
        Path | None, "their judgements: query id, document id, grade", Option("FILE")
    ] = None
    public_key: PublicKey = None

    def open_bundle(self) -> Bundle:
        """The bundle. Raises as :meth:`pocketquery.sdk.bundle.bundle.Bundle.open`."""
        return Bundle.open(self.bundle, public_key=self.public_key)

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.clients is None) == (self.queries is None):
            raise InvalidInputError(
                "which queries the users have is not clear; give clients or queries"
            )
        if self.gate_queries is None and (self.gate_qrels or self.clients):
            raise InvalidInputError(
                "found no held-out queries for the acceptance gate; give --gate-queries (queries "
                "that no client has), with --gate-qrels where there are judgements"
            )

    def read_users(self, index: Index, encoder: Encoder) -> Users:
        """The users; synthetic ones ask about neighbouring documents of ``index``."""
        if self.clients is not None:
            return Users(read_clients(self.clients))
        assert self.queries is not None
        texts = [query.text for query in read_queries(self.queries)]
        held_out: tuple[str, ...] = ()
        if self.gate_queries is None:
            held_out = tuple(texts[::_HELD_OUT][:_MOST_HELD_OUT])
            kept_back = set(held_out)
            texts = [text for text in texts if text not in kept_back]
        if not texts:
            raise InvalidInputError(
                f"{self.queries}: found {len(held_out)} queries, all needed for the gate; expected "
                "more, or --gate-queries"
            )
        nearest = index.vectors().nearest(encoder.encode_query(texts), 1)[:, 0]
        return Users(by_topic(texts, nearest, self.users, self.queries_each), held_out)

    def read_gate(self, index: Index, encoder: Encoder, users: Users) -> GateCollection:
        """What the acceptance gate measures on."""
        if self.gate_queries is None:
            return judged_by_shipped(index, encoder, users.held_out)
        queries = read_queries(self.gate_queries)
        if self.gate_qrels is None:
            return judged_by_shipped(index, encoder, [query.text for query in queries])
        return judged_by_people(index, queries, read_judgements(self.gate_qrels))

    def fingerprints(self) -> dict[str, object]:
        """What tells these inputs from others, whatever the files are called."""
        contents = {
            "bundle": _identity(self.open_bundle().path, "manifest.json"),
            "index": _identity(self.index, "index.json"),
            "clients": _sha256(self.clients),
            "queries": _sha256(self.queries),
            "gate_queries": _sha256(self.gate_queries),
            "gate_qrels": _sha256(self.gate_qrels),
        }
        return contents | {"users": self.users, "queries_each": self.queries_each}


def _identity(path: Path, inside: str) -> str:
    """The hash of a zip, or of the file in a folder that holds the hashes of the others."""
    return sha256_file(path / inside if path.is_dir() else path)


def _sha256(path: Path | None) -> str | None:
    return None if path is None else sha256_file(path)
