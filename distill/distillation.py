"""Teacher to light query encoder, from texts to a saved student, resumable at any moment."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pocketquery.distill.exportable import check_exportable
from pocketquery.distill.pruning.product_quantization import (
    expand_vocabulary,
    quantise_vocabulary,
    requantise_vocabulary,
)
from pocketquery.distill.pruning.pruned_student import prune_student, vocabulary_source
from pocketquery.distill.settings import StudentConfig, TrainingConfig
from pocketquery.distill.starts import check_vocabulary, fit_head, with_vocabulary
from pocketquery.distill.student import (
    StudentShape,
    build_student,
    student_shape,
    widen_student,
)
from pocketquery.distill.student_of_bundle import load_student
from pocketquery.distill.targets import prepare_targets
from pocketquery.distill.teachers import Teacher, check_steady
from pocketquery.distill.training import interpolate, train
from pocketquery.distill.words_start import fit_words, unfitted_words
from pocketquery.sdk.errors import (
    ArtifactError,
    InvalidInputError,
    PocketQueryWarning,
    UnknownModelError,
)
from pocketquery.sdk.files import make_folder, real_path, write_atomic
from pocketquery.sdk.validation import check, number
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.layout import check_model_replaceable
from pocketquery.server.modeling.vector_cache import cached_vectors, texts_sha256
from pocketquery.server.training.checkpoints import clear_work, load_checkpoint, work_folder

__all__ = ["DistillationReport", "distill"]


@dataclass(frozen=True)
class DistillationReport:
    """What a distillation made: folder, shape, sizes and the vocabulary's statistics.

    ``start`` names what the student began as.
    """

    path: Path
    student: str
    space_id: str
    parameters: int
    vocabulary: int
    vocabulary_statistics: dict[str, Any]
    texts: int
    documents: int
    resumed: bool
    start: str


def distill(
    teacher: Teacher,
    texts: Sequence[str],
    output: str | Path,
    *,
    documents: Sequence[str] = (),
    student: StudentConfig | None = None,
    start: SentenceEncoder | Literal["words"] | None = None,
    tokenizer: Any = None,
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
        teacher: the frozen encoder, or whatever gives vectors
            (:class:`~pocketquery.distill.VectorTeacher`); it is only read.
        texts: query-like training texts.
        output: folder of the student, sentence-transformers layout.
        documents: texts to rank as the teacher does; without them the training texts are ranked.
        student: shape, vocabulary and length.
        start: a student of this teacher to go on from, with more texts or at a smaller rate. This
            function made it, or it was read out of its bundle
            (:func:`~pocketquery.distill.bundle_student`). It keeps its shape and vocabulary. Or any
            BERT-like encoder of another space, of whose layers the student is made, under a linear
            head; or ``"words"``: no encoder, but a table of words that is fitted to the texts'
            vectors. It is only read. None: the teacher's own layers, or the built-in
            encoder's, with a warning, where no student can be made of the teacher's.
        tokenizer: a Hugging Face fast tokenizer, where the vocabulary is to be another than the
            start's.
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
        InvalidInputError: no texts, settings that do not fit the start, or a vocabulary that does
            not know the texts. ``student`` or ``tokenizer`` beside a student to go on from;
            ``interpolation`` or ``feed_forward`` without one or out of range; one that was adapted.
            Or ``output`` is a folder that holds something else, the teacher, ``start``, or that
            student as it was adapted later.
        UnknownModelError: a start whose architecture or vocabulary no device reads, or a teacher
            that gives other vectors the second time.
        ArtifactError: ``<output>.work`` holds another run.
    """
    check("interpolation", interpolation, number(0, 1))
    if not texts:
        raise InvalidInputError("there are no training texts; expected at least one")
    config = config or TrainingConfig()
    former = start if isinstance(start, SentenceEncoder) and start.space else None
    goes_on = former is not None and former.space_id == teacher.space_id
    if former is not None and goes_on:
        if tokenizer is not None:
            raise InvalidInputError("a student to go on from keeps its vocabulary; give no other")
        source, student = former, _config_of(former, teacher, student, feed_forward)
    else:
        if former is not None:
            warnings.warn(
                f"the start is of the space {former.space_id}, and the teacher of "
                f"{teacher.space_id}: its layers are taken, and learn that space",
                PocketQueryWarning,
                stacklevel=2,
            )
        if interpolation != 1:
            raise InvalidInputError(
                f"interpolation is {interpolation} without start in the teacher's space, expected "
                "1: there is nothing to lie between"
            )
        if feed_forward is not None:
            raise InvalidInputError(
                f"feed_forward is {feed_forward} without start in the teacher's space, expected "
                "None: the shape says how wide a new student is"
            )
        source, student = _source(teacher, start, student or StudentConfig(), tokenizer, config)
    own = source.space_id == teacher.space_id
    foreign = source.space.get("distillation", {}).get("from") if own else source.name
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
        **({} if source is teacher else {"start": source.content_id}),
        **({"from": foreign} if foreign else {}),
        **({} if interpolation == 1 else {"interpolation": interpolation}),
        # Workers and checkpoint intervals do not change the weights.
        **{k: v for k, v in asdict(config).items() if k not in ("workers", "checkpoint_every")},
    }
    finished = _finished(place, identity)
    if finished is not None:
        if _is_of(work, identity):
            _keep_log(work, place)
        return replace(finished, path=output)
    for model in (teacher, source):
        model.check_kept(output)
    check_model_replaceable(place)
    vocabulary_source(source.tokenizer)  # one that cannot ship is refused before the work
    shape = StudentShape.parse(str(student.shape))
    check_steady(teacher)
    kept = work if cache is None else Path(cache)
    encoding = {"bfloat16": config.bfloat16, "show_progress_bar": show_progress_bar}
    if not goes_on:
        whole = [*texts, *documents]
        joined = None if own else teacher
        if not own and tokenizer is None:
            check_vocabulary(source, texts)
        if start == "words":
            make_folder(work)
            vectors = cached_vectors(teacher.to(device), "query", texts, kept, **encoding)
            fit_words(source, texts, vectors, seed=config.seed)
        encoder, statistics = _untrained(source, student, shape, config.seed, whole, joined)
    else:
        encoder = copy.deepcopy(source)
        statistics = source.space.get("report", {}).get("vocabulary_statistics", {})
        check_exportable(encoder)
        requantise_vocabulary(encoder)
        if feed_forward is not None:
            if foreign or not isinstance(teacher, SentenceEncoder):
                raise InvalidInputError(
                    f"feed_forward is {feed_forward}, expected None: the student was not cut out "
                    "of its teacher, of whose units it would get more"
                )
            widen_student(encoder, teacher, shape, student.layers)
    before = None if interpolation == 1 else copy.deepcopy(encoder.state_dict())
    make_folder(work)
    targets = prepare_targets(
        teacher.to(device), texts, documents, kept, nearest=config.nearest, **encoding
    )
    if not own:
        fit_head(encoder, texts, targets.vectors)
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
        student=str(student.shape),
        space_id=encoder.space_id,
        parameters=sum(p.numel() for p in encoder.parameters()),
        vocabulary=len(encoder.tokenizer),
        vocabulary_statistics=statistics,
        texts=len(texts),
        documents=len(documents),
        resumed=resumed,
        start="the teacher's layers" if source is teacher else source.name,
    )
    if shape.subvector is not None:
        expand_vocabulary(encoder)
    figures = {key: value for key, value in asdict(report).items() if key != "path"}
    encoder.space |= {"teacher": teacher.name, "distillation": identity, "report": figures}
    encoder.save(place)
    _keep_log(work, place)
    return report


def _source(
    teacher: Teacher,
    start: SentenceEncoder | Literal["words"] | None,
    config: StudentConfig,
    tokenizer: Any,
    training: TrainingConfig,
) -> tuple[SentenceEncoder, StudentConfig]:
    """What the student is made of, and ``config`` with a shape."""
    shape = config.shape or "3x384"
    if start is None and isinstance(teacher, SentenceEncoder):
        try:
            check_exportable(teacher)
            vocabulary_source(teacher.tokenizer)
            start = teacher
        except UnknownModelError as error:
            warnings.warn(
                f"the student starts from the built-in encoder, not from its teacher's layers: "
                f"{error}",
                PocketQueryWarning,
                stacklevel=3,
            )
    source = start if isinstance(start, SentenceEncoder) else load_student("default")
    if start == "words":
        source = unfitted_words(
            StudentShape.parse(shape),
            tokenizer or source.tokenizer,
            max_length=config.max_length,
            seed=training.seed,
        )
        source.name = "words"
    elif tokenizer is not None:
        source = with_vocabulary(source, tokenizer)
    if source.space_id != teacher.space_id and config.shape is None:
        shape = str(student_shape(source, source))
    return source, replace(config, shape=shape)


def _untrained(
    source: SentenceEncoder,
    config: StudentConfig,
    shape: StudentShape,
    seed: int,
    texts: Sequence[str],
    teacher: Teacher | None,
) -> tuple[SentenceEncoder, dict[str, Any]]:
    """The student as it begins, a part of ``source``, and its vocabulary's statistics."""
    student = build_student(
        source,
        shape,
        max_length=config.max_length,
        seed=seed,
        layers=config.layers,
        teacher=teacher,
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
        known = getattr(source.backbone.config, "vocabulary_subvector", None)
        if (known, source.hidden_size) == (shape.subvector, shape.width):
            student.backbone.config.vocabulary_subvector = known
            requantise_vocabulary(student)  # the table is of few values already
        else:
            quantise_vocabulary(student, whole, shape.subvector, seed)
    return student, statistics


def _config_of(
    start: SentenceEncoder,
    teacher: Teacher,
    requested: StudentConfig | None,
    feed_forward: int | None,
) -> StudentConfig:
    """What :func:`distill` was once asked for when it made ``start``, but for what is widened."""
    if requested is not None:
        raise InvalidInputError(
            "student and start are both given; expected one of them: a student to go on from has "
            "its shape and vocabulary already"
        )
    known = start.space.get("distillation")
    if (known is None and "bundle" not in start.space) or "adaptation" in start.space:
        origin = "was adapted" if "adaptation" in start.space else "was not distilled"
        raise InvalidInputError(
            f"the student to go on from {origin}; expected one as distill() saved it, or one out "
            "of its bundle"
        )
    if known is None:
        wide = teacher if isinstance(teacher, SentenceEncoder) else start
        config = StudentConfig(str(student_shape(start, wide)), max_length=start.max_length)
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
    shape = replace(StudentShape.parse(str(config.shape)), intermediate=feed_forward)
    return replace(config, shape=str(shape))


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
