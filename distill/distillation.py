"""Teacher to light query encoder, from texts to a saved student, resumable at any moment."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pocketquery.distill.exportable import check_exportable
from pocketquery.distill.pruning.product_quantization import (
    expand_vocabulary,
    quantise_vocabulary,
    requantise_vocabulary,
)
from pocketquery.distill.pruning.pruned_student import prune_student, vocabulary_source
from pocketquery.distill.settings import StudentConfig, TrainingConfig
from pocketquery.distill.student import (
    StudentShape,
    build_student,
    student_shape,
    widen_student,
)
from pocketquery.distill.targets import prepare_targets
from pocketquery.distill.training import interpolate, train
from pocketquery.sdk.errors import (
    ArtifactError,
    InvalidInputError,
    SpaceMismatchError,
    UnknownModelError,
)
from pocketquery.sdk.files import make_folder, real_path, write_atomic
from pocketquery.sdk.validation import check, number
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.layout import check_model_replaceable
from pocketquery.server.modeling.vector_cache import texts_sha256
from pocketquery.server.training.checkpoints import clear_work, load_checkpoint, work_folder

__all__ = ["DistillationReport", "distill"]


@dataclass(frozen=True)
class DistillationReport:
    """What a distillation made: folder, shape, sizes and the vocabulary's statistics."""

    path: Path
    student: str
    space_id: str
    parameters: int
    vocabulary: int
    vocabulary_statistics: dict[str, Any]
    texts: int
    documents: int
    resumed: bool


def distill(
    teacher: SentenceEncoder,
    texts: Sequence[str],
    output: str | Path,
    *,
    documents: Sequence[str] = (),
    student: StudentConfig | None = None,
    start: SentenceEncoder | None = None,
    feed_forward: int | None = None,
    interpolation: float = 1.0,
    cache: str | Path | None = None,
    config: TrainingConfig | None = None,
    device: str = "cpu",
    show_progress_bar: bool = False,
) -> DistillationReport:
    """Distil ``teacher`` into a light query encoder of the same vector space.

    The work (teacher vectors, checkpoints, log) lives in ``<output>.work`` beside the result until
    it is done. Run the same call again after a kill and it continues to the same weights; run it
    again after success and it returns at once.

    Args:
        teacher: the frozen encoder; it is only read.
        texts: query-like training texts.
        output: folder of the student, sentence-transformers layout.
        documents: texts to rank as the teacher does; without them the training texts are ranked.
        student: shape, vocabulary and length.
        start: a student of this teacher to go on from, with more texts or at a smaller rate. This
            function made it, or it was read out of its bundle
            (:func:`~pocketquery.distill.bundle_student`). It keeps its shape and vocabulary. It is
            only read.
        feed_forward: with ``start``, how wide its feed-forward part becomes; what is added begins
            as the teacher's next most important units, read with weight zero.
        interpolation: with ``start``, how far the weights go from it (0) to the trained ones (1).
            Halfway often keeps what both can (Wortsman et al., CVPR 2022).
        cache: folder for the teacher's vectors, which stay there, for several students of the same
            texts; default: beside the checkpoint, removed at the end.
        config: hyper-parameters of the training.
        device: torch device to train on.
        show_progress_bar: bars with loss, throughput and time left.

    Raises:
        InvalidInputError: no texts, or settings that do not fit the teacher. ``student`` and
            ``start`` at once; ``interpolation`` or ``feed_forward`` without ``start`` or out of
            range; a ``start`` that was not made here or was adapted. Or ``output`` is a folder that
            holds something else, the teacher, ``start``, or that student as it was adapted later.
        SpaceMismatchError: ``start`` is another teacher's.
        UnknownModelError: a teacher whose architecture or vocabulary no device reads.
        ArtifactError: ``<output>.work`` holds another run.
    """
    check("interpolation", interpolation, number(0, 1))
    if start is not None:
        student = _config_of(start, teacher, student, feed_forward)
    elif interpolation != 1:
        raise InvalidInputError(
            f"interpolation is {interpolation} without start, expected 1: there is nothing to "
            "lie between"
        )
    elif feed_forward is not None:
        raise InvalidInputError(
            f"feed_forward is {feed_forward} without start, expected None: the shape says how wide "
            "a new student is"
        )
    student, config = student or StudentConfig(), config or TrainingConfig()
    if not texts:
        raise InvalidInputError("there are no training texts; expected at least one")
    output = Path(output)
    place, work = real_path(output), work_folder(output)  # saving replaces the folder that is "."
    identity = {
        "teacher": teacher.content_id,  # a student may teach, too: its space names another
        "teacher_max_length": teacher.max_length,  # no part of the space, but of its vectors
        "texts": texts_sha256(texts),
        "documents": texts_sha256(documents),
        "student": student.shape,
        "layers": None if student.layers is None else list(student.layers),
        "vocabulary_size": student.vocabulary_size,
        "vocabulary_coverage": student.vocabulary_coverage,
        "max_length": student.max_length,
        **({"least_character": student.least_character} if student.least_character else {}),
        **({} if start is None else {"start": start.content_id}),
        **({} if interpolation == 1 else {"interpolation": interpolation}),
        # Workers and checkpoint intervals do not change the weights.
        **{k: v for k, v in asdict(config).items() if k not in ("workers", "checkpoint_every")},
    }
    finished = _finished(place, identity)
    if finished is not None:
        if _is_of(work, identity):
            _keep_log(work, place)
        return replace(finished, path=output)
    for model in (teacher, start):
        if model is not None:
            model.check_kept(output)
    check_model_replaceable(place)
    vocabulary_source(teacher.tokenizer)  # one that cannot ship is refused before the work
    shape = StudentShape.parse(student.shape)
    if start is None:
        encoder, statistics = _untrained(teacher, student, shape, config.seed, [*texts, *documents])
    else:
        encoder = copy.deepcopy(start)
        statistics = start.space.get("report", {}).get("vocabulary_statistics", {})
        check_exportable(encoder)
        requantise_vocabulary(encoder)
        if feed_forward is not None:
            widen_student(encoder, teacher, shape, student.layers)
    _check_padding(teacher)
    before = None if interpolation == 1 else copy.deepcopy(encoder.state_dict())
    make_folder(work)
    targets = prepare_targets(
        teacher.to(device),
        texts,
        documents,
        work if cache is None else Path(cache),
        nearest=config.nearest,
        bfloat16=config.bfloat16,
        show_progress_bar=show_progress_bar,
    )
    checkpoint = work / "checkpoint.pt"
    resumed = checkpoint.exists()
    train(
        encoder.to(device),
        list(texts),
        targets,
        config,
        checkpoint=checkpoint,
        identity=identity,
        log=work / "log.jsonl",
        show_progress_bar=show_progress_bar,
    )
    encoder.to("cpu")
    if before is not None:
        interpolate(encoder, before, interpolation)
    report = DistillationReport(
        path=output,
        student=student.shape,
        space_id=encoder.space_id,
        parameters=sum(p.numel() for p in encoder.parameters()),
        vocabulary=len(encoder.tokenizer),
        vocabulary_statistics=statistics,
        texts=len(texts),
        documents=len(documents),
        resumed=resumed,
    )
    if shape.subvector is not None:
        expand_vocabulary(encoder)
    made = {"teacher": teacher.name, "distillation": identity, "report": _plain(report)}
    encoder.space |= made
    encoder.save(place)
    _keep_log(work, place)
    return report


def _untrained(
    teacher: SentenceEncoder,
    config: StudentConfig,
    shape: StudentShape,
    seed: int,
    texts: Sequence[str],
) -> tuple[SentenceEncoder, dict[str, Any]]:
    """The student as it begins, a part of its teacher, and its vocabulary's statistics."""
    student = build_student(
        teacher, shape, max_length=config.max_length, seed=seed, layers=config.layers
    )
    statistics: dict[str, Any] = {}
    whole = [student.prompts.get("query", "") + text for text in texts]
    size, coverage = config.vocabulary_size, config.vocabulary_coverage
    if size is not None or coverage is not None:
        statistics = prune_student(
            student,
            whole,
            target_size=size,
            coverage=1.0 if coverage is None else coverage,
            least_character=config.least_character,
        )
    if shape.subvector is not None:
        quantise_vocabulary(student, whole, shape.subvector, seed)
    return student, statistics


def _config_of(
    start: SentenceEncoder,
    teacher: SentenceEncoder,
    requested: StudentConfig | None,
    feed_forward: int | None,
) -> StudentConfig:
    """What :func:`distill` was once asked for when it made ``start``, but for what is widened."""
    if requested is not None:
        raise InvalidInputError(
            "student and start are both given; expected one of them: a student to go on from has "
            "its shape and vocabulary already"
        )
    if start.space_id != teacher.space_id:
        raise SpaceMismatchError(
            f"the student to go on from is of the space {start.space_id}, but the teacher of "
            f"{teacher.space_id}; take the teacher that it was distilled from"
        )
    known = start.space.get("distillation")
    if (known is None and "bundle" not in start.space) or "adaptation" in start.space:
        origin = "was adapted" if "adaptation" in start.space else "was not distilled"
        raise InvalidInputError(
            f"the student to go on from {origin}; expected one as distill() saved it, or one out "
            "of its bundle"
        )
    if known is None:
        config = StudentConfig(str(student_shape(start, teacher)), max_length=start.max_length)
    else:
        names = ("vocabulary_size", "vocabulary_coverage", "max_length")
        config = StudentConfig(
            shape=known["student"],
            layers=None if known["layers"] is None else tuple(known["layers"]),
            least_character=known.get("least_character", 0),
            **{name: known[name] for name in names},
        )
    if feed_forward is None:
        return config
    shape = replace(StudentShape.parse(config.shape), intermediate=feed_forward)
    return replace(config, shape=str(shape))


def _check_padding(teacher: SentenceEncoder) -> None:
    """Raise where a text's vector depends on the texts that it is encoded with."""
    text = "a"
    apart = teacher.encode([text])[0] @ teacher.encode([text, "a longer text beside it"])[0]
    if apart < 1 - 1e-4:
        raise UnknownModelError(
            f"{teacher.name}: the vector of a text depends on the texts beside it (cosine "
            f"{apart:.3f}), since padding on the {teacher.tokenizer.padding_side} moves its "
            'positions; say "padding_side": "right" in tokenizer_config.json'
        )


def _keep_log(work: Path, output: Path) -> None:
    """Move the log into the student, then remove what was only needed to resume."""
    if (work / "log.jsonl").is_file():
        write_atomic(output / "distillation.jsonl", (work / "log.jsonl").read_bytes())
    clear_work(work)


def _is_of(work: Path, identity: dict[str, Any]) -> bool:
    """Whether a finished run left ``work``; one with other settings may wait there to go on."""
    try:
        known = load_checkpoint(work / "checkpoint.pt", identity) is not None
    except ArtifactError:
        return False
    return known or (work / "log.jsonl").is_file()


def _finished(output: Path, identity: dict[str, Any]) -> DistillationReport | None:
    """The report of an earlier call that ended with this very student, if there was one."""
    try:
        saved = json.loads((output / "pocketquery.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(saved, dict) or saved.get("distillation") != json.loads(json.dumps(identity)):
        return None
    if "adaptation" in saved:
        raise InvalidInputError(
            f"{output} holds this student as it was adapted later; name another place for the one "
            "that was not, or remove it"
        )
    return DistillationReport(path=output, **saved["report"])


def _plain(report: DistillationReport) -> dict[str, Any]:
    return {key: value for key, value in asdict(report).items() if key != "path"}
