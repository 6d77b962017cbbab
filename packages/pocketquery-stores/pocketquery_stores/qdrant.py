"""An index's documents in a collection of Qdrant: what changed is written.

Qdrant has no transactions, so a sync writes what is new or changed before it deletes what is gone:
who searches meanwhile misses nothing that was there, and a sync that is killed is made whole by
the next. Each point tells its space, without which its vector means nothing, and a digest, by which
the next sync knows whether it changed.
"""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from pocketquery.sdk.bundle.signature import Key
from pocketquery.sdk.errors import (
    InvalidInputError,
    MissingExtraError,
    PocketQueryError,
    SpaceMismatchError,
)
from pocketquery.sdk.index.documents import Document, metadata_text
from pocketquery.sdk.slices.source import IndexState, read_source
from pocketquery_stores.sync import FOLDER, SyncReport, document_digest

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

__all__ = ["API_KEY_VARIABLE", "Datatype", "point_id", "sync_qdrant", "sync_vectors"]

Datatype: TypeAlias = Literal["float16", "float32"]
API_KEY_VARIABLE = "QDRANT_API_KEY"
_IDS = uuid.UUID("5a2f0f2e-6c5e-5d0c-9a53-0c6f6a1f9f53")  # of no meaning, but ours
_SPACE, _DIGEST = "space_id", "digest"
_READ_AT_A_TIME, _WRITTEN_AT_A_TIME = 4096, 256  # points


def point_id(document_id: str) -> str:
    """The id of a document's point: Qdrant's are numbers or UUIDs, so a UUID of version 5."""
    return str(uuid.uuid5(_IDS, document_id))


def sync_qdrant(
    index: Path | str,
    server: str | QdrantClient,
    *,
    collection: str = "documents",
    datatype: Datatype = "float16",
    public_key: Key | None = None,
) -> SyncReport:
    """Make ``collection`` hold the documents of ``index``: what is new or changed is written, then
    what the index has no more goes (the package's extra "qdrant").

    A point has the vector, whose inner product with a query's is the score, and the payload ``id``,
    ``text``, ``metadata``, ``space_id`` and ``digest``. The collection is made where there is none.

    Args:
        index: the index's folder; it is read whole.
        server: ``https://host:6333``, with the key in ``QDRANT_API_KEY`` where it wants one; or a
            client that is connected.
        collection: its name.
        datatype: of the stored vectors, where the collection is made.
        public_key: the index must be signed by its private half.

    Raises:
        SpaceMismatchError: the collection's vectors are of another space.
        InvalidInputError: a type that there is not; the collection has other vectors, or points
            that no sync wrote.
        MissingExtraError: qdrant-client is not installed.
        PocketQueryError: the server cannot be reached or refuses; what was written before stays.
        ArtifactNotFoundError, CorruptArtifactError, UnsupportedVersionError, SignatureError: the
            index cannot be used.
    """
    if datatype not in get_args(Datatype):
        raise InvalidInputError(f"the type is {datatype!r}, expected float16 or float32")
    try:
        import qdrant_client
        from qdrant_client.http.exceptions import ApiException
    except ImportError as error:
        raise MissingExtraError.of("qdrant-client", f"{FOLDER}[qdrant]") from error
    own: Any = None
    if isinstance(server, str):
        key = os.environ.get(API_KEY_VARIABLE)
        try:
            own = qdrant_client.QdrantClient(server, api_key=key, check_compatibility=False)
        except ValueError as error:
            raise InvalidInputError(
                f"the server is {server!r}, expected an address like https://host:6333 ({error})"
            ) from error
    try:
        with read_source(index, public_key) as source:
            return _Sync(own or server, source, collection, datatype).run()
    except ApiException as error:
        raise PocketQueryError(
            f"Qdrant's collection {collection} cannot be used: {str(error).strip()}; what was "
            "written before stays, the next sync goes on"
        ) from error
    finally:
        if own is not None:
            own.close()


def sync_vectors(
    index: Path | str,
    server: str,
    *,
    table: str,
    vector_type: Literal["halfvec", "vector"],
    public_key: Key | None = None,
) -> SyncReport:
    """:func:`sync_qdrant` as ``pocketquery vectors --to`` calls it, in the words of pgvector."""
    datatype: Datatype = "float16" if vector_type == "halfvec" else "float32"
    return sync_qdrant(index, server, collection=table, datatype=datatype, public_key=public_key)


class _Sync:
    """From what the collection has to what the index has."""

    def __init__(
        self, client: Any, source: IndexState, collection: str, datatype: Datatype
    ) -> None:
        self._client = client
        self._source = source
        self._collection = collection
        self._datatype = datatype

    def run(self) -> SyncReport:
        """Compare, write, delete."""
        from qdrant_client import models

        self._prepare()
        before = self._digests()
        missing = set(before)
        added = changed = 0
        waiting: list[models.PointStruct] = []
        for _, documents, vectors in self._source.with_vectors(self._source.placed()):
            for document, vector in zip(documents, vectors, strict=True):
                point = point_id(document.id)
                digest = document_digest(document, vector.tobytes()).hex()
                missing.discard(point)
                if before.get(point) == digest:
                    continue
                added, changed = added + (point not in before), changed + (point in before)
                payload = self._payload(document, digest)
                waiting.append(
                    models.PointStruct(id=point, vector=vector.tolist(), payload=payload)
                )
                if len(waiting) == _WRITTEN_AT_A_TIME:
                    self._write(waiting)
        self._write(waiting)
        gone = sorted(missing)
        for start in range(0, len(gone), _READ_AT_A_TIME):
            some = models.PointIdsList(points=gone[start : start + _READ_AT_A_TIME])
            self._client.delete(self._collection, points_selector=some, wait=True)
        info = self._source.info
        return SyncReport(
            table=self._collection,
            documents=len(before) + added - len(gone),
            added=added,
            changed=changed,
            removed=len(gone),
            space_id=info.space_id,
            dimension=info.dimension,
        )

    def _prepare(self) -> None:
        """The collection as ours is, made where it is not there."""
        from qdrant_client import models

        wanted = models.VectorParams(
            size=self._source.info.dimension,
            distance=models.Distance.DOT,
            datatype=models.Datatype(self._datatype),
        )
        if not self._client.collection_exists(self._collection):
            self._client.create_collection(self._collection, vectors_config=wanted)
            return
        vectors = self._client.get_collection(self._collection).config.params.vectors
        if not isinstance(vectors, models.VectorParams) or (vectors.size, vectors.distance) != (
            wanted.size,
            wanted.distance,
        ):
            raise InvalidInputError(
                f"the collection {self._collection} has the vectors {vectors}; expected unnamed "
                f"ones of {wanted.size} dimensions, compared by Dot. Name another, or delete it"
            )

    def _digests(self) -> dict[str, str]:
        """By the id of each point; all of them of the index's space."""
        digests: dict[str, str] = {}
        ours, following = self._source.info.space_id, None
        while True:
            points, following = self._client.scroll(
                self._collection,
                limit=_READ_AT_A_TIME,
                offset=following,
                with_payload=[_SPACE, _DIGEST],
                with_vectors=False,
            )
            for point in points:
                payload = point.payload or {}
                if _SPACE not in payload or _DIGEST not in payload:
                    raise InvalidInputError(
                        f"the collection {self._collection} has the point {point.id}, which no "
                        "sync wrote; name a collection of its own"
                    )
                if payload[_SPACE] != ours:
                    raise SpaceMismatchError.between(
                        f"the collection {self._collection}", payload[_SPACE], "the index", ours
                    )
                digests[str(point.id)] = payload[_DIGEST]
            if following is None:
                return digests

    def _payload(self, document: Document, digest: str) -> dict[str, Any]:
        return {
            "id": document.id,
            "text": document.text,
            "metadata": json.loads(metadata_text(document)),
            _SPACE: self._source.info.space_id,
            _DIGEST: digest,
        }

    def _write(self, points: list[Any]) -> None:
        """Over those with their ids; the list is empty afterwards."""
        if points:
            self._client.upsert(self._collection, points=points, wait=True)
            points.clear()
