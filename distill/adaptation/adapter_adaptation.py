"""Adapt a bundle's adapter in torch with its student: gives a release, not a new bundle.

What :mod:`pocketquery.distill.adaptation.student_adaptation` does to all layers, to the adapter
alone: bundles that are out there swap the release in. The lesson is better than a device's
(:mod:`pocketquery.client.adaptation`): of every pseudo-query the whole distribution, where the
training step knows one opened document at a time, and ranked with the teacher's vectors of it. The
student learns in float; before and after, the bundle itself is judged, in int8.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pocketquery.distill.adaptation.low_rank import add_low_rank_changes, low_rank_tensors
from pocketquery.distill.adaptation.student_adaptation import StudentAdaptation, teach
from pocketquery.distill.settings import StudentAdaptationConfig
from pocketquery.sdk.bundle.adapter import (
    AdapterRelease,
    check_adapter_place,
    pack_adapter,
    write_adapter,
)
from pocketquery.sdk.bundle.adapter_tensors import released
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.signature import Key
from pocketquery.sdk.encoder import Encoder
from pocketquery.sdk.errors import InvalidInputError, SpaceMismatchError
from pocketquery.sdk.index.index import Index
from pocketquery.server.evaluation.diverse_texts import DIVERSE_TEXTS
from pocketquery.server.modeling import SentenceEncoder

__all__ = ["adapt_adapter", "adapter_config"]

_LARGEST_DISTANCE = 0.05  # bundle and student, mean of 1 - cos; int8's share is under a fifth of it


def adapter_config() -> StudentAdaptationConfig:
    """The defaults of :func:`adapt_adapter`: what is small and new moves at ten times the rate."""
    config = StudentAdaptationConfig()
    return replace(config, training=replace(config.training, learning_rate=1e-3))


def adapt_adapter(
    student: SentenceEncoder,
    index: Index,
    output: str | Path,
    *,
    bundle: Bundle,
    teacher: SentenceEncoder | None = None,
    adapter: AdapterRelease | None = None,
    version: str | None = None,
    signing_key: Key | None = None,
    config: StudentAdaptationConfig | None = None,
    show_progress_bar: bool = False,
) -> StudentAdaptation:
    """Teach the adapter of ``bundle`` the hybrid ranking of ``index`` and write it as a release,
    where the bundle finds more with it.

    Killed and called again, it continues to the same tensors (``<output>.work`` holds where it is).

    Args:
        student: that ``bundle`` was exported from; gets the adapter, which is trained in place.
        index: its documents are learnt from.
        output: file of the release; an older one there is replaced.
        bundle: with an adapter whose ``down`` and ``up`` are both of a release.
        teacher: of the student's space; ranks in the student's place and anchors it. By default
            the student as it is.
        adapter: of the bundle, to start from; by default the bundle's own.
        version: of the encoder that results; by default the old one and -adapted.
        signing_key: an Ed25519 private key: 32 raw bytes, 64 hexadecimal digits or a PEM file.
        config: how; by default :func:`adapter_config`.
        show_progress_bar: loss, throughput and time left on stderr.

    Raises:
        SpaceMismatchError: bundle, index, student and teacher are not of one space.
        InvalidInputError: the bundle has no such adapter, or was exported from another student. Or
            the index has too few documents with text, ``output`` is there and no release, a
            teacher's ranking is asked for and there is none, or a release would have more than 100
            KB.
        CorruptArtifactError: ``adapter`` is for another bundle.
        ArtifactError: ``<output>.work`` holds another run.
    """
    check_adapter_place(output)
    manifest = bundle.manifest
    if manifest.space.id != student.space_id:
        raise SpaceMismatchError(
            f"the bundle is of the space {manifest.space.id}, but the student of "
            f"{student.space_id}; take the student that the bundle was exported from"
        )
    encoder, parent = Encoder.of_bundle(bundle), manifest.encoder_version
    if adapter is not None:
        adapter.check_belongs(manifest, "the adapter", "take one of this bundle")
        encoder.swap_adapter(dict(adapter.tensors))
        parent = adapter.version
    add_low_rank_changes(student, encoder.adapter)
    described: dict[str, Any] = {
        "manifest": manifest,
        "version": version or f"{parent}-adapted",
        "parent_version": parent,
        "signing_key": signing_key,
    }
    pack_adapter(encoder.adapter, **described)  # too large, a wrong key: before minutes of training
    _check_same(student, encoder)

    def served() -> Encoder:
        encoder.swap_adapter(released(low_rank_tensors(student)))
        return encoder

    def save(identity: Mapping[str, Any]) -> None:
        write_adapter(output, low_rank_tensors(student), **described)

    return teach(
        student,
        index,
        Path(output),
        teacher=teacher,
        config=config or adapter_config(),
        served=served,
        save=save,
        show_progress_bar=show_progress_bar,
    )


def _check_same(student: SentenceEncoder, encoder: Encoder) -> None:
    """Another student of one teacher would learn an adapter that spoils this bundle."""
    student_vectors = student.encode(DIVERSE_TEXTS)
    apart = float(
        1 - (student_vectors * encoder.encode(DIVERSE_TEXTS, prompt="")).sum(axis=1).mean()
    )
    if apart > _LARGEST_DISTANCE:
        raise InvalidInputError(
            f"bundle and student are {apart:.3f} apart (mean of 1 - cos, texts of all kinds), "
            f"expected at most {_LARGEST_DISTANCE:g}: the bundle {encoder.name!r} was exported "
            "from another student"
        )
