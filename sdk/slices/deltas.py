"""From one version of an index to the next: making a delta, and applying it on a device.

::

    make_delta("slices/a", "slices-2/a", "a.delta")    # where both are
    apply_delta("a.delta", "index")                    # where the older one is

An index that a delta was applied to holds what the newer one holds: the same documents in the same
order, vectors, lengths and postings, so the same hits with the same scores.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pocketquery.sdk.arrays import Rows
from pocketquery.sdk.bundle.signature import Key, key_id, public_key_of
from pocketquery.sdk.errors import (
    ArtifactError,
    CorruptArtifactError,
    InvalidInputError,
    SignatureError,
    SpaceMismatchError,
)
from pocketquery.sdk.files import check_file_replaceable, make_folder
from pocketquery.sdk.folders import present_folder
from pocketquery.sdk.index.builder import COMMITTED_TOGETHER, create_index
from pocketquery.sdk.index.contents import StoredTexts, packed_texts
from pocketquery.sdk.index.delta_manifest import DeltaManifest
from pocketquery.sdk.index.documents import Document, metadata_text, stored_document
from pocketquery.sdk.index.info import read_info
from pocketquery.sdk.index.signature import check_space
from pocketquery.sdk.index.vector_file import Codes
from pocketquery.sdk.plain_files import is_private, mode_for
from pocketquery.sdk.slices.delta_file import Changes, Delta, write_delta
from pocketquery.sdk.slices.source import IndexState, read_source, state_of
from pocketquery.sdk.words import AUTO

__all__ = ["AppliedDelta", "DeltaReport", "apply_delta", "make_delta"]

_COMPARED_ROWS = 8192  # rows whose vectors are compared together


@dataclass(frozen=True)
class DeltaReport:
    """What a delta does.

    Attributes:
        path: its file.
        bytes: of it.
        removed: documents that go.
        added: that come.
        changed: whose text, metadata or vector is another under their id.
        documents: that the new index has.
        signature_key_id: of the key it was signed with; None where it was not.
    """

    path: str
    bytes: int
    removed: int
    added: int
    changed: int
    documents: int
    signature_key_id: str | None = None


@dataclass(frozen=True)
class AppliedDelta:
    """What :func:`apply_delta` did.

    Attributes:
        path: the index's folder.
        documents: that it has now.
        removed: documents that went.
        added: that came.
        changed: whose text, metadata or vector is another under their id.
        was_there: the index held the new contents already, and was left as it was.
        signed_by: the id of the key that was checked; None where none was given.
    """

    path: str
    documents: int
    removed: int
    added: int
    changed: int
    was_there: bool = False
    signed_by: str | None = None


def make_delta(
    old: Path | str, new: Path | str, output: Path | str, *, signing_key: Key | None = None
) -> DeltaReport:
    """Write to ``output`` what leads from the index ``old`` to the index ``new``.

    Args:
        old: what devices have; read whole, like ``new``.
        new: what they shall have, of the same space.
        output: the file; a delta that is there is replaced.
        signing_key: an Ed25519 private key to sign the delta with: 32 raw bytes, 64 hexadecimal
            digits or a PEM file. Needed where ``new`` is signed, the same one.

    Raises:
        SpaceMismatchError: the indexes are of two spaces.
        InvalidInputError: one has deleted documents (compact it), ``new`` is signed and no key or
            another one is given, ``output`` is something else than a delta, or the delta would be
            larger than a device reads.
        ArtifactNotFoundError, CorruptArtifactError, UnsupportedVersionError: an index cannot be
            used; name the file.
    """
    signer = None if signing_key is None else key_id(public_key_of(signing_key))
    check_file_replaceable(Path(output), "a delta", Delta)
    make_folder(Path(output).parent)
    with read_source(old) as before, read_source(new) as after:
        _check_pair(before, after, signer)
        was, becomes = before.contents(), after.contents()
        rows = {texts.id: (row, digest) for row, (texts, digest) in enumerate(_digests(before))}
        order, documents, gone = list[int](), list[StoredTexts](), dict.fromkeys(rows)
        for texts, digest in _digests(after):
            row, known = rows.get(texts.id, (-1, b""))
            gone.pop(texts.id, None)
            order.append(row if known == digest else -1)
            if known != digest:
                _check_canonical(texts, new)
                documents.append(texts)
        removed, places = list(gone), np.array(order, np.int64)
        changed = sum(one.id in rows for one in documents)
        manifest = write_delta(
            output,
            DeltaManifest(
                space_id=after.info.space_id,
                dimension=after.info.dimension,
                old=was,
                new=becomes,
                removed=len(removed),
                added=len(documents) - changed,
                changed=changed,
                parts={},
            ),
            places,
            removed,
            documents,
            after.codes(np.flatnonzero(places < 0)),
            signing_key,
            mode=0o600 if is_private(old) or is_private(new) else mode_for(Path(output)),
        )
    return DeltaReport(
        path=str(output),
        bytes=Path(output).stat().st_size,
        removed=manifest.removed,
        added=manifest.added,
        changed=manifest.changed,
        documents=manifest.new.documents,
        signature_key_id=manifest.signature_key_id,
    )


def apply_delta(
    delta: Path | str, index: Path | str, *, public_key: Key | None = None
) -> AppliedDelta:
    """Make the index at ``index`` what the delta's maker had as the new one, in one step.

    The new index is written beside the old one, compared with the hash that the delta names, and
    takes its place; a kill at any moment leaves one of both, whole. Where the index holds the new
    contents already, nothing is done.

    Args:
        delta: the file.
        index: the folder; nobody else may write to it meanwhile.
        public_key: delta and index must both be signed by its private half; the index that comes of
            it opens with the same key.

    Raises:
        ArtifactError: the index is not the one the delta was made from, or another process changed
            it meanwhile; it is as it was.
        SpaceMismatchError: the delta is of another space.
        SignatureError: with a key: one of both is not signed by it. Without: the index says it is
            signed and the delta is not.
        ArtifactNotFoundError, CorruptArtifactError, UnsupportedVersionError: one of both cannot be
            used; name the file.
    """
    opened = Delta(delta, public_key)
    manifest = opened.manifest
    folder = present_folder(Path(index))
    check_space(folder, read_info(folder), manifest)
    done = AppliedDelta(
        path=str(index),
        documents=manifest.new.documents,
        removed=manifest.removed,
        added=manifest.added,
        changed=manifest.changed,
        was_there=True,
        signed_by=opened.signed_by,
    )
    with read_source(index, public_key) as source:
        info, state = source.info, source.state
        if info.signature_key_id is not None and manifest.signature_key_id is None:
            raise SignatureError(
                f"{index} says it is signed by the key {info.signature_key_id!r} and {delta} is "
                "not signed; expected a signed delta. Fetch it from its publisher"
            )
        if _is_there(source, manifest, Path(delta)):
            return done
        changes = opened.read()
        _check_ids(source, changes, manifest, Path(delta))
        builder = create_index(
            index,
            space_id=info.space_id,
            dimension=info.dimension,
            encoded_by=source.encoded_by,
            language=info.language,
            private=is_private(index) or is_private(delta),
        )
        try:
            for documents, codes in _merged(source, changes):
                builder.add_rows(documents, codes)
            if (actual := builder.contents_sha256()) != manifest.new.sha256:
                raise ArtifactError(
                    f"{delta} leads to contents of the SHA-256 {actual} here, expected "
                    f"{manifest.new.sha256}; {index} is as it was. Fetch the whole index"
                )
        except BaseException:
            builder.abandon()
            raise
    # Nothing of ours reads the index any more, so its place can be taken.
    try:
        if state_of(index) != state:
            raise ArtifactError(f"{index} was changed meanwhile; apply {delta} again")
    except BaseException:
        builder.abandon()
        raise
    builder.close(opened.proof(), manifest.signature_key_id)
    return replace(done, was_there=False)


def _check_pair(before: IndexState, after: IndexState, signer: str | None) -> None:
    old, new = before.info, after.info
    if (old.space_id, old.dimension) != (new.space_id, new.dimension):
        raise SpaceMismatchError.between(
            f"the index {before.folder}", old.space_id, f"the index {after.folder}", new.space_id
        )
    if old.language == AUTO:
        raise InvalidInputError(
            f"{before.folder} never had a document, so a delta to {after.folder} would have all of "
            "that; publish it whole"
        )
    if old.language != new.language:
        raise InvalidInputError(
            f"{before.folder} is in the language {old.language!r} and {after.folder} in "
            f"{new.language!r}; expected one language. Build the new index with "
            f"language={old.language!r}"
        )
    if new.signature_key_id not in (None, signer):
        raise InvalidInputError(
            f"{after.folder} is signed by the key {new.signature_key_id!r}, and the delta would be "
            f"signed by {signer or 'none'}; expected the same. Name its private key (signing_key, "
            "--signing-key)"
        )


def _check_canonical(texts: StoredTexts, index: Path | str) -> None:
    """Metadata are read and written again on the device, which must give the same text."""
    document = stored_document(texts.id, texts.text, texts.metadata)
    if metadata_text(document) != texts.metadata:
        raise InvalidInputError(
            f"the metadata of {texts.id!r} in {index} were not written by pocketquery's builder; "
            "expected its spelling. Build the index again"
        )


def _digests(source: IndexState) -> Iterator[tuple[StoredTexts, bytes]]:
    """Each document with a hash of its texts and its vector, row by row."""
    living = source.living()
    texts = source.texts()
    for start in range(0, len(living), _COMPARED_ROWS):
        for row in source.codes(living[start : start + _COMPARED_ROWS]):
            one = next(texts)
            yield one, hashlib.sha256(packed_texts(*one) + row.tobytes()).digest()


def _is_there(source: IndexState, manifest: DeltaManifest, delta: Path) -> bool:
    """Whether the index holds the new contents; it must hold the old ones else."""
    try:
        contents = source.contents()
    except InvalidInputError as error:
        raise ArtifactError(
            f"{source.folder} was changed on this device: documents of it were deleted. Expected "
            f"the index that {delta} was made from; fetch the whole index"
        ) from error
    if contents == manifest.new:
        return True
    if contents != manifest.old:
        raise ArtifactError(
            f"{source.folder} has {contents.documents} documents, contents {contents.sha256}; "
            f"{delta} was made from an index of {manifest.old.documents}, contents "
            f"{manifest.old.sha256}. "
            "Fetch the delta that was made from this one, or the whole index"
        )
    return False


def _check_ids(source: IndexState, changes: Changes, manifest: DeltaManifest, delta: Path) -> None:
    """Hold what a delta says of ids against the index: what goes, what comes, what changes."""
    remaining = set(changes.order[changes.order >= 0].tolist())
    new = {document.id for document in changes.documents}
    gone, is_taken = set[str](), len(new) < len(changes.documents)
    for row, texts in enumerate(source.texts()):
        if row not in remaining:
            gone.add(texts.id)
        elif texts.id in new:
            is_taken = True
    changed = gone & new
    if is_taken or len(changed) != manifest.changed or gone - changed != set(changes.removed):
        raise CorruptArtifactError(
            f"{delta} names other documents than go, come and change in {source.folder}; it was "
            "made wrongly. Fetch the whole index"
        )


def _merged(source: IndexState, changes: Changes) -> Iterator[tuple[list[Document], Codes]]:
    """The new index's documents, as many at a time as a build adds."""
    ranks = np.cumsum(changes.order < 0) - 1
    for start in range(0, len(changes.order), COMMITTED_TOGETHER):
        rows: Rows = changes.order[start : start + COMMITTED_TOGETHER]
        new, rank = rows < 0, ranks[start : start + COMMITTED_TOGETHER]
        old_documents, old_codes = source.read(rows[~new])
        codes = np.empty((len(rows), changes.codes.shape[1]), np.uint8)
        codes[~new], codes[new] = old_codes, changes.codes[rank[new]]
        old = iter(old_documents)
        documents = [
            changes.documents[place] if is_new else next(old)
            for is_new, place in zip(new.tolist(), rank.tolist(), strict=True)
        ]
        yield documents, codes
