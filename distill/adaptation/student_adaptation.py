"""Adapting a whole student to the documents of an index: no label, no new vectors, all its layers.

The hybrid ranking of an index, by words and meaning together, is better than a student's own; with
the teacher's vectors in the student's place it is better still. So on pseudo-queries cut from the
documents, clean and mistyped, the student learns

    KL(p || softmax(D s / temperature))  +  weight * (1 - cos(s, t))

    p = (softmax(hybrid / sharpness) + softmax(D t / temperature)) / 2

with D the index's own vectors, s the student's of a query and t the teacher's. Of p's halves, the
first tells the student what words find, and the second what its teacher means: that is what the
hybrid ranking lacks once the student is adapted, for words it has already. Documents, vectors and
the space stay as they are. ``client/adaptation`` does the first to an adapter, without torch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from pocketquery.client.adaptation.acceptance import (
    AdaptationVerdict,
    judge,
    known_item_scores,
)
from pocketquery.client.adaptation.pseudo_queries import split_pseudo_queries
from pocketquery.client.training.hybrid_teacher import hybrid_rankings
from pocketquery.distill.settings import StudentAdaptationConfig
from pocketquery.distill.targets import Targets
from pocketquery.distill.training import interpolate, train
from pocketquery.sdk.arrays import Floats
from pocketquery.sdk.errors import InvalidInputError, SpaceMismatchError
from pocketquery.sdk.files import make_folder, sha256_bytes
from pocketquery.sdk.index.documents import content
from pocketquery.sdk.index.index import Index
from pocketquery.server.evaluation.diverse_texts import DIVERSE_TEXTS
from pocketquery.server.modeling import SentenceEncoder, weights_fingerprint
from pocketquery.server.modeling.layout import check_model_replaceable
from pocketquery.server.modeling.vector_cache import texts_sha256
from pocketquery.server.training.checkpoints import clear_work, work_folder

__all__ = ["Served", "StudentAdaptation", "adapt_student", "teach"]

_STEP_BACK_FACTOR = 0.9  # of the way, where texts of all kinds move too far
_LEAST_INTERPOLATION = 0.05


class Served(Protocol):
    """An encoder as it is asked: n texts to unit vectors, float32 (n, dimension)."""

    def encode(self, texts: Sequence[str], /) -> Floats:
        """As documents or texts of any kind."""
        ...

    def encode_query(self, texts: Sequence[str], /) -> Floats:
        """As queries."""
        ...


@dataclass(frozen=True)
class StudentAdaptation:
    """The result.

    Attributes:
        path: of the adapted student, or of the release; None where the verdict refuses it and
            nothing was written.
        verdict: whether it is better.
        queries: pseudo-queries it was trained on.
        kept_aside: pseudo-queries it was judged by.
        interpolation: how far the weights went; less than was asked for where texts of all kinds
            would have moved too far.
    """

    path: Path | None
    verdict: AdaptationVerdict
    queries: int
    kept_aside: int
    interpolation: float


def adapt_student(
    student: SentenceEncoder,
    index: Index,
    output: str | Path,
    *,
    teacher: SentenceEncoder | None = None,
    config: StudentAdaptationConfig | None = None,
    show_progress_bar: bool = False,
) -> StudentAdaptation:
    """Teach ``student`` the hybrid ranking of ``index`` and save it, where it finds more.

    Killed and called again, it continues to the same weights (``<output>.work`` holds where it is).

    Args:
        student: is trained in place, on its device.
        index: its documents are learnt from.
        output: folder of the adapted student; an older one there is replaced.
        teacher: of the student's space; ranks in the student's place and anchors it. By default
            the student as it is.
        config: how.
        show_progress_bar: loss, throughput and time left on stderr.

    Raises:
        SpaceMismatchError: index, student and teacher are not of one space.
        InvalidInputError: the index has too few documents with text to learn from and be judged by.
            Or ``output`` is a folder that holds something else, or the teacher. Or a teacher's
            ranking is asked for, and there is none.
        ArtifactError: ``<output>.work`` holds another run.
    """
    check_model_replaceable(Path(output))
    if teacher is not None:
        teacher.check_kept(output)

    def save(identity: Mapping[str, Any]) -> None:
        student.space |= {"adaptation": identity}
        if teacher is not None:  # of a student out of its bundle, which does not name it
            student.space.setdefault("teacher", teacher.name)
        student.save(output)

    return teach(
        student,
        index,
        Path(output),
        teacher=teacher,
        config=config or StudentAdaptationConfig(),
        served=lambda: student,
        save=save,
        show_progress_bar=show_progress_bar,
    )


def teach(
    student: SentenceEncoder,
    index: Index,
    output: Path,
    *,
    teacher: SentenceEncoder | None,
    config: StudentAdaptationConfig,
    served: Callable[[], Served],
    save: Callable[[Mapping[str, Any]], None],
    show_progress_bar: bool,
) -> StudentAdaptation:
    """What :func:`adapt_student` does, of those weights of ``student`` that have a gradient.

    Args:
        student, index, output, teacher, config, show_progress_bar: as there.
        served: the encoder that devices would have of the student's weights as they are now.
        save: writes ``output``; gets the settings that it was made with.

    Raises:
        SpaceMismatchError, InvalidInputError, ArtifactError: as there.
    """
    if teacher is None and config.ranked_by == "teacher":
        raise InvalidInputError(
            "ranked_by is 'teacher' and there is no teacher, expected one: by itself a student "
            "learns nothing of its own ranking"
        )
    teacher = teacher or student
    for source, space in (("index", index.space_id), ("teacher", teacher.space_id)):
        if space != student.space_id:
            raise SpaceMismatchError(
                f"the {source} is of the space {space}, but the student of {student.space_id}; "
                "take those that were made with one teacher"
            )
    taught, kept_aside = split_pseudo_queries(
        index,
        most=config.most_queries,
        most_kept_aside=config.most_kept_aside,
        least=config.training.batch_size,
        seed=config.training.seed,
        stretches=config.stretches,
    )
    texts = [query.text for query in taught]
    vectors = index.vectors()
    identity = {
        # Another index may give the same texts, and rank other documents for them.
        "documents": texts_sha256(text for d in index.documents() for text in (d.id, content(d))),
        "vectors": sha256_bytes(vectors.vectors(np.arange(len(vectors))).tobytes()),
        "student": weights_fingerprint(student.state_dict()),
        "teacher": weights_fingerprint(teacher.state_dict()),
        "texts": texts_sha256(texts),
        **_plain(config),
    }
    options: dict[str, Any] = {"typo_rate": config.training.typo_rate, "seed": config.training.seed}
    encoder = served()
    before = known_item_scores(encoder.encode_query, index, kept_aside, **options)
    general = encoder.encode(DIVERSE_TEXTS)
    start = {name: value.clone() for name, value in student.state_dict().items()}
    work = work_folder(output)
    new_folders = [folder for folder in work.parents if not folder.exists()]
    make_folder(work)
    train(
        student,
        texts,
        _targets(index, texts, teacher, config),
        config.training,
        checkpoint=work / "checkpoint.pt",
        identity=identity,
        log=work / "log.jsonl",
        show_progress_bar=show_progress_bar,
    )
    way = config.interpolation
    interpolate(student, start, way)
    encoder = served()
    while (drift := _drift(encoder, general)) > config.largest_drift and way > _LEAST_INTERPOLATION:
        way *= _STEP_BACK_FACTOR
        interpolate(student, start, _STEP_BACK_FACTOR)
        encoder = served()
    after = known_item_scores(encoder.encode_query, index, kept_aside, **options)
    verdict = judge(before, after, drift, config.largest_drift)
    if verdict.accepted:
        save(identity | {"interpolation": way})
    clear_work(work)
    if not verdict.accepted:  # nothing was written, so nothing is left
        for folder in new_folders:
            with contextlib.suppress(OSError):
                folder.rmdir()
    return StudentAdaptation(
        output if verdict.accepted else None, verdict, len(taught), len(kept_aside), way
    )


def _drift(encoder: Served, before: Floats) -> float:
    """How far texts of all kinds moved from ``before``, mean of 1 - cos."""
    return float(1 - (encoder.encode(DIVERSE_TEXTS) * before).sum(axis=1).mean())


def _targets(
    index: Index, texts: list[str], teacher: SentenceEncoder, config: StudentAdaptationConfig
) -> Targets:
    """The hybrid's ranking of the index's documents for each text."""
    vectors = teacher.encode_query(texts)
    rankings = hybrid_rankings(
        index,
        texts,
        vectors,
        config.training.nearest,
        config.sharpness,
        temperature=config.training.temperature if config.ranked_by == "both" else None,
    )
    # As many for every text: in a small index one may find a document that words alone can find.
    count = min(map(len, rankings.ranked))
    documents = rankings.documents.vectors(np.arange(len(rankings.documents)))
    ranked = np.array([rows[:count] for rows in rankings.ranked], np.int64)
    if config.ranked_by == "teacher":
        return Targets(vectors, documents, ranked)
    shares = np.array([share[:count] / share[:count].sum() for share in rankings.shares])
    return Targets(vectors, documents, ranked, shares.astype(np.float32))


def _plain(config: StudentAdaptationConfig) -> dict[str, Any]:
    """The settings that change the weights."""
    settings = asdict(config)
    training = settings.pop("training")
    return settings | {
        k: v for k, v in training.items() if k not in ("workers", "checkpoint_every")
    }
