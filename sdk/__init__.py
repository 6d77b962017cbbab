"""The device side of pocketquery: open a bundle, encode a query, search an index.

    from pocketquery import sdk

    sdk.encode("how do plants make sugar")  # with the built-in encoder

    with sdk.open_index("index") as index:
        for hit in index.search("how do plants make sugar", k=3):
            print(hit.score, hit.text)

Names are resolved on first use, so importing this costs nothing: not numpy, not onnxruntime.

onnxruntime's newer releases report on their users: they leave a device id in the home folder and
send events. Here they do not, unless ``ORT_DISABLE_TELEMETRY`` is set otherwise before.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pocketquery.sdk.lazy import lazy_names

# Before anybody imports onnxruntime, which looks at it then and never again.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

if TYPE_CHECKING:
    from pocketquery.sdk.bundle.installed import bundles
    from pocketquery.sdk.doctor.verification import VerificationReport, verify
    from pocketquery.sdk.encoder import Encoder
    from pocketquery.sdk.errors import (
        ArtifactError,
        ArtifactNotFoundError,
        CorpusError,
        CorruptArtifactError,
        InvalidInputError,
        MissingExtraError,
        PocketQueryError,
        RollbackError,
        SignatureError,
        SpaceMismatchError,
        UnknownModelError,
        UnsupportedVersionError,
        WriteError,
    )
    from pocketquery.sdk.index.index import Document, Hit, Hits, Index, create_index, open_index
    from pocketquery.sdk.index.updates import Changes
    from pocketquery.sdk.indexing.building import IndexReport, build_index
    from pocketquery.sdk.indexing.folder_index import index_folder
    from pocketquery.sdk.loading import encode, encode_query, load
    from pocketquery.sdk.results.facets import FacetCount
    from pocketquery.sdk.results.snippet import Snippet, snippet
    from pocketquery.sdk.slices.deltas import apply_delta, make_delta
    from pocketquery.sdk.slices.slicing import slice_index, slice_index_by
    from pocketquery.sdk.text_folders.listing import list_files
    from pocketquery.sdk.text_folders.text_folder import read_file, read_folder

__all__ = [
    "load",
    "encode",
    "encode_query",
    "open_index",
    "create_index",
    "list_files",
    "read_file",
    "snippet",
    "read_folder",
    "build_index",
    "index_folder",
    "slice_index",
    "slice_index_by",
    "make_delta",
    "apply_delta",
    "verify",
    "bundles",
    "Encoder",
    "Index",
    "Hit",
    "Hits",
    "Document",
    "Changes",
    "Snippet",
    "FacetCount",
    "IndexReport",
    "VerificationReport",
    "PocketQueryError",
    "InvalidInputError",
    "CorpusError",
    "UnknownModelError",
    "MissingExtraError",
    "SpaceMismatchError",
    "ArtifactError",
    "ArtifactNotFoundError",
    "CorruptArtifactError",
    "UnsupportedVersionError",
    "WriteError",
    "SignatureError",
    "RollbackError",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "loading": ("load", "encode", "encode_query"),
        "encoder": ("Encoder",),
        "index.index": ("open_index", "create_index", "Index", "Hit", "Hits", "Document"),
        "text_folders.listing": ("list_files",),
        "text_folders.text_folder": ("read_file", "read_folder"),
        "index.updates": ("Changes",),
        "indexing.building": ("build_index", "IndexReport"),
        "indexing.folder_index": ("index_folder",),
        "results.snippet": ("snippet", "Snippet"),
        "results.facets": ("FacetCount",),
        "slices.slicing": ("slice_index", "slice_index_by"),
        "slices.deltas": ("make_delta", "apply_delta"),
        "bundle.installed": ("bundles",),
        "doctor.verification": ("verify", "VerificationReport"),
        "errors": tuple(name for name in __all__ if name.endswith("Error")),
    },
)
