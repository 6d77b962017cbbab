"""Bundles and indexes: opened, verified, of one space, a query encoded and searched."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from pocketquery.sdk.doctor.findings import Finding, Severity

if TYPE_CHECKING:
    from pocketquery.sdk.encoder import Encoder

__all__ = ["check_bundle", "check_index"]

_TIMED_RUNS = 20  # of a query; the median is shown
_HITS = 10
_READ_DOCUMENTS = 1000  # whose languages are looked at


def check_bundle(path: Path | str, name: str, public_key: str | None) -> Finding:
    """Every hash, the signature where there is a key, and the golden texts, as ``verify`` does.

    Raises:
        ArtifactError, InvalidInputError: it is not sound; see :func:`pocketquery.sdk.verify`.
        MissingExtraError: a key is given and "cryptography" is not installed.
    """
    from pocketquery.sdk.doctor.verification import verify

    report = verify(path, public_key=public_key)
    found = f"{report.name} {report.version}, {report.bytes / 1e6:.1f} MB, {report.space_id}"
    found += f"; reads {', '.join(report.languages) or 'languages it does not list'}"
    if report.golden is not None:
        found += f"; {report.golden.texts} golden texts, cosine {report.golden.least_cosine:.6f}"
    found += f"; signed by {report.signed_by}" if report.signed_by else ""
    return Finding("bundles", name, Severity.OK, found, "", report.to_dict())


def check_index(
    path: Path | str, load: Callable[[], Encoder], query: str, public_key: str | None
) -> Iterator[Finding]:
    """The index whole, its space beside the encoder's, and a query over both, timed.

    Args:
        path: the index.
        load: gives the encoder; called once the index was found sound, which it is without one.
        query: what to search for.
        public_key: of the index's signature, or None.

    Raises:
        ArtifactError: it is not sound; see :func:`pocketquery.sdk.verify`; or as ``load`` does.
        SpaceMismatchError: the encoder is of another space.
    """
    from pocketquery.sdk.doctor.verification import verify_index
    from pocketquery.sdk.index.index import open_index
    from pocketquery.sdk.languages.reading import REMEDY, ReadingTally

    report = verify_index(path, public_key=public_key)
    found = f"{report.documents} documents, {report.bytes / 1e6:.1f} MB, {report.space_id}"
    found += f"; signed by {report.signed_by}" if report.signed_by else ""
    yield Finding("index", "files", Severity.OK, found, "", report.to_dict())
    encoder = load()
    with open_index(path, encoder=encoder) as index:
        tally = ReadingTally(encoder)
        tally.add(islice(index.documents(), _READ_DOCUMENTS))
        hits = index.search(query, _HITS)
        encode = _median([_timed(lambda: encoder.encode_query(query)) for _ in range(_TIMED_RUNS)])
        search = _median([_timed(lambda: index.search(query, _HITS)) for _ in range(_TIMED_RUNS)])
    details = {"query": query, "encode": encode, "encode_and_search": search, "hits": len(hits)}
    if tally.message:
        yield Finding("index", "languages", Severity.WARNING, tally.message, REMEDY)
    found = f"{len(hits)} hits; encoded in {encode * 1e3:.2f} ms, with search {search * 1e3:.2f} ms"
    if hits:
        yield Finding("index", "query", Severity.OK, found, "", details)
    else:
        remedy = "add documents: pocketquery index --documents FOLDER --output INDEX"
        yield Finding("index", "query", Severity.WARNING, found, remedy, details)


def _timed(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def _median(times: list[float]) -> float:
    return sorted(times)[len(times) // 2]
