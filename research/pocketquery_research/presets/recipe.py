"""Make the built-in encoders, at 1, 3, 6 and 10 MB.

    python -m pocketquery_research.presets.recipe make --preset 6mb --budget science --data DATA

does all of it: ``teacher`` computes the teacher's vectors, once for all sizes; ``distil`` trains,
of a budget that goes on from another's student first that one; ``export`` takes minutes. Each can
be run alone; killed and run again, it continues where it was. Settings and seeds are all here; the
log of the training lies in the student's folder, and a model card in the bundle's. With ``--start``
the budget's own stage alone is gone, from a student or a bundle that is there.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pocketquery.distill.distillation import distill
from pocketquery.distill.settings import StudentConfig, TrainingConfig
from pocketquery.distill.student import StudentShape
from pocketquery.distill.student_of_bundle import load_student
from pocketquery.distill.targets import prepare_targets
from pocketquery.export.package_command import CARD
from pocketquery.sdk.bundle.manifest import Manifest
from pocketquery.sdk.errors import InvalidInputError, PocketQueryError
from pocketquery.sdk.files import write_atomic
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.vector_cache import cached_vectors
from pocketquery_research.presets.model_card import model_card
from pocketquery_research.presets.texts import (
    LICENCE,
    PresetTexts,
    check_data_sets,
    preset_texts,
)

__all__ = ["PRESETS", "Preset", "main"]

TEACHER = "demo"  # all-MiniLM-L6-v2, Apache-2.0
MAX_LENGTH = 128
_PARTS = ("teacher", "distil", "export")
_CALIBRATION = 512  # texts

_CONFIG = TrainingConfig(
    learning_rate=1e-3,
    warmup=0.04,
    max_length=MAX_LENGTH,
    nearest=4,
    typo_share=0.3,
    typo_rate=0.08,
    seed=26,
    quantised_share=0.04,
    bfloat16=True,
    checkpoint_every=50,
)


@dataclass(frozen=True)
class Preset:
    """One size.

    Attributes:
        shape: of the student.
        vocabulary: pieces that are kept.
        config: of its training, but for what the budget says.
        least_character: see :func:`pocketquery.distill.prune_vocabulary`.
    """

    shape: str
    vocabulary: int
    config: TrainingConfig = _CONFIG
    least_character: int = 50


PRESETS = {
    "1mb": Preset("1x128-linear-pq4", 8_000, replace(_CONFIG, learning_rate=2e-3)),
    "3mb": Preset("1x384-pq6", 10_000),
    "6mb": Preset("2x384x640-pq4", 29_000),
    "10mb": Preset("3x384-pq4", 30_000),
}


@dataclass(frozen=True)
class Budget:
    """How much a student learns from, and for how long.

    Attributes:
        pieces: see :func:`~pocketquery_research.presets.texts.preset_texts`, as the next four.
        textbook_pieces: likewise.
        documents: likewise.
        question_copies: likewise.
        dialogue_turns: likewise.
        steps: of the training.
        batch_size: texts a step, and documents at random that it ranks.
        rate: times the preset's learning rate, which is for the accelerator's batches.
        typo_share: of a batch that is mistyped.
        seed: of order, noise and samples.
        texts_seed: of which texts are drawn.
        technical_share: as ``pieces``.
        science_pieces: likewise.
        start: the budget from whose student this one goes on; None: from the teacher's parts.
        feed_forward: how wide its feed-forward part becomes then; None: as it was.
        interpolation: how far the weights go from that student's to the trained ones.
    """

    pieces: int
    textbook_pieces: int
    documents: int
    question_copies: int
    dialogue_turns: int | None
    steps: int
    batch_size: int
    rate: float = 1.0
    typo_share: float = _CONFIG.typo_share
    seed: int = _CONFIG.seed
    texts_seed: int = _CONFIG.seed
    technical_share: float = 1.0
    science_pieces: int = 0
    start: str | None = None
    feed_forward: int | None = None
    interpolation: float = 1.0


BUDGETS = {
    "accelerator": Budget(2_000_000, 500_000, 60_000, 4, None, 6_000, 1024),  # of 10mb
    "brief": Budget(900_000, 250_000, 30_000, 2, None, 3_700, 1024),  # a minute of one
    # Then an hour of two cores, with more that is mistyped.
    "narrower": Budget(
        400_000, 150_000, 16_000, 1, 30_000, 1_200, 1024, 0.5,
        typo_share=0.4, seed=_CONFIG.seed + 1, start="brief", interpolation=0.5,
    ),
    # Another hour, wider: the built-in encoder before (from the last stage's 8-bit file).
    "default": Budget(
        500_000, 250_000, 24_000, 1, 30_000, 1_200, 1024, 0.5,
        typo_share=0.4, seed=_CONFIG.seed + 3, texts_seed=_CONFIG.seed + 1, start="narrower",
        feed_forward=704, interpolation=0.5,
    ),
    # From there half an hour on what is like textbooks: finds more that is mistyped.
    "technical": Budget(
        250_000, 300_000, 16_000, 1, 30_000, 1_000, 1024, 0.5,
        typo_share=0.4, seed=_CONFIG.seed + 5, texts_seed=_CONFIG.seed + 2, technical_share=0.2,
        start="default", feed_forward=736, interpolation=0.5,
    ),
    # From "default" on, too, the words of fields of which pages and textbooks have little: the
    # built-in encoder.
    "science": Budget(
        30_000, 40_000, 6_000, 1, 10_000, 450, 1024, 0.5,
        typo_share=0.4, seed=_CONFIG.seed + 6, texts_seed=_CONFIG.seed + 3, science_pieces=150_000,
        start="default", feed_forward=736, interpolation=0.75,
    ),
    # Of the table's 3mb and 1mb, with --steps 2000 and 4000; 6mb of it was not taken.
    "pages": Budget(
        1_400_000, 500_000, 30_000, 2, None, 16_000, 1024, typo_share=0.4, seed=_CONFIG.seed + 2
    ),
    "cores": Budget(400_000, 150_000, 16_000, 1, 30_000, 24_000, 128, 0.6),
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line of the docstring."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("what", choices=("make", *_PARTS), help="one part, or all three")
    add("--preset", choices=tuple(PRESETS), default="6mb")
    add("--data", type=Path, default=Path("data"), help="folder with the public data sets")
    add("--output", type=Path, default=Path("runs/presets"), help="students and bundles go here")
    add("--device", default="cpu")
    add("--budget", choices=tuple(BUDGETS), default="accelerator", help="how much is learnt from")
    add("--start", metavar="STUDENT", help="go on from it: a student's folder, or a bundle")
    add("--workers", type=int, default=0, help="processes that prepare batches")
    add("--steps", type=int, help="other than the budget's, for a trial")
    add("--seed", type=int, help="other than the budget's, of all but the texts, for a trial")
    add("--shape", help="other than the preset's, for a trial")
    add("--vocabulary", type=int, help="other than the preset's, for a trial")
    add("--name", help="of the folder under the output; default: the preset's")
    options = parser.parse_args(arguments)
    try:
        _make(options)
    except PocketQueryError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _make(options: argparse.Namespace) -> None:
    """The parts that were asked for, of each stage of the budget."""
    parts = _PARTS if options.what == "make" else (options.what,)
    folder = options.output / (options.name or options.preset)
    given = None if options.start is None else load_student(options.start)
    _check(options, given)
    student, learnt, ranked = None, set[str](), set[str]()
    for name in _stages(options):
        budget = BUDGETS[name]
        start = given if student is None else SentenceEncoder.load(student)
        student = folder / ("student" if name == options.budget else f"student-{name}")
        texts = _texts(budget, options.data)
        print(f"{len(texts.queries):,} texts, {len(texts.documents):,} documents", flush=True)
        if "export" in parts:  # the model card counts them
            learnt.update(texts.queries)
            ranked.update(texts.documents)
        preset = _preset(options, budget)
        if "teacher" in parts:
            _teach(preset, texts, options.output, options.device)
        if "distil" in parts:
            _distil(preset, budget, texts, student, start, options.device)
    assert student is not None
    if "export" in parts:
        manifest = _export(options.preset, texts, student)
        made = SentenceEncoder.load(student)
        card = model_card(
            manifest,
            options=_options_given(options),
            shape=made.space["distillation"]["student"],
            vocabulary=len(made.tokenizer),
            trained=_trained(options),
            texts=len(learnt),
            documents=len(ranked),
            with_textbooks=budget.textbook_pieces > 0,
            with_science=budget.science_pieces > 0,
        )
        write_atomic(folder / "bundle" / CARD, card)


def _check(options: argparse.Namespace, given: SentenceEncoder | None) -> None:
    """What would otherwise end in an error after hours of an earlier stage."""
    for name in ("shape", "vocabulary"):
        if given is not None and getattr(options, name) is not None:
            raise InvalidInputError(
                f"--{name} is given with --start; expected one of them: the student that is gone "
                "on from keeps its own"
            )
    budgets = [BUDGETS[name] for name in _stages(options)]
    check_data_sets(
        options.data,
        textbooks=any(budget.textbook_pieces for budget in budgets),
        science=any(budget.science_pieces for budget in budgets),
    )
    shape = StudentShape.parse(options.shape or PRESETS[options.preset].shape)
    wide = shape.intermediate or 4 * shape.width
    if given is not None:
        wide = given.backbone.config.intermediate_size
    for budget in budgets:
        if budget.feed_forward is not None and budget.feed_forward <= wide:
            raise InvalidInputError(
                f"the student's feed-forward part is {wide} wide, and the budget "
                f"{options.budget!r} widens it to {budget.feed_forward}; expected a narrower "
                "preset or --start, or another budget"
            )
        wide = budget.feed_forward or wide


def _options_given(options: argparse.Namespace) -> str:
    """For the model card: those of the command line that say what is made."""
    named = ("preset", "budget", "steps", "seed", "shape", "vocabulary")
    values = [(name, getattr(options, name)) for name in named]
    said = [f"--{name} {value}" for name, value in values if value is not None]
    return " ".join([*said, *(["--start STUDENT"] if options.start else [])])


def _stages(options: argparse.Namespace) -> list[str]:
    """The budgets that a student goes through, the one that was asked for last."""
    stages = [options.budget]
    while not options.start and (before := BUDGETS[stages[0]].start):
        stages.insert(0, before)
    return stages


def _texts(budget: Budget, data: Path) -> PresetTexts:
    return preset_texts(
        data,
        pieces=budget.pieces,
        textbook_pieces=budget.textbook_pieces,
        documents=budget.documents,
        question_copies=budget.question_copies,
        dialogue_turns=budget.dialogue_turns,
        technical_share=budget.technical_share,
        science_pieces=budget.science_pieces,
        seed=budget.texts_seed,
    )


def _preset(options: argparse.Namespace, budget: Budget) -> Preset:
    preset = PRESETS[options.preset]
    config = replace(
        preset.config,
        steps=options.steps or budget.steps,
        batch_size=budget.batch_size,
        learning_rate=preset.config.learning_rate * budget.rate,
        random_documents=budget.batch_size,
        typo_share=budget.typo_share,
        seed=budget.seed if options.seed is None else options.seed,
        workers=options.workers,
    )
    shape = StudentShape.parse(options.shape or preset.shape)
    if budget.feed_forward is not None:
        shape = replace(shape, intermediate=budget.feed_forward)
    return replace(
        preset,
        shape=str(shape),
        vocabulary=options.vocabulary or preset.vocabulary,
        config=config,
    )


def _trained(options: argparse.Namespace) -> str:
    """For the model card: each stage, in words."""
    said = [] if options.start is None else ["from another student"]
    for name in _stages(options):
        budget = BUDGETS[name]
        one = _preset(options, budget).config
        way = f", {budget.interpolation:.0%} of the way" if budget.interpolation < 1 else ""
        if budget.feed_forward is not None:
            way = f", {budget.feed_forward} wide within{way}"
        said.append(
            f"{one.steps:,} steps of {one.batch_size:,} texts, {one.typo_share:.0%} of them "
            f"mistyped, seed {one.seed}{way}"
        )
    return "; then ".join(said)


def _teach(preset: Preset, texts: PresetTexts, output: Path, device: str) -> None:
    prepare_targets(
        SentenceEncoder.load(TEACHER, device=device),
        texts.queries,
        texts.documents,
        output / "teacher",
        nearest=preset.config.nearest,
        bfloat16=preset.config.bfloat16,
        show_progress_bar=True,
    )


def _distil(
    preset: Preset,
    budget: Budget,
    texts: PresetTexts,
    student: Path,
    start: SentenceEncoder | None,
    device: str,
) -> None:
    untrained = StudentConfig(
        shape=preset.shape,
        vocabulary_size=preset.vocabulary,
        least_character=preset.least_character,
        max_length=MAX_LENGTH,
    )
    report = distill(
        SentenceEncoder.load(TEACHER),
        texts.queries,
        student,
        documents=texts.documents,
        student=untrained if start is None else None,
        start=start,
        feed_forward=budget.feed_forward,
        interpolation=budget.interpolation,
        cache=student.parents[1] / "teacher",
        config=preset.config,
        device=device,
        show_progress_bar=True,
    )
    print(report)


def _export(name: str, texts: PresetTexts, student: Path) -> Manifest:
    from pocketquery.export.bundle.bundling import export_bundle
    from pocketquery.export.quantization.ranking_gate import GateData
    from pocketquery.server.corpus import Query

    teacher = SentenceEncoder.load(TEACHER)
    cache = student.parents[1] / "teacher"
    vectors = cached_vectors(teacher, "document", texts.held_out, cache, show_progress_bar=True)
    queries = [Query(str(i), text) for i, text in enumerate(texts.held_out_queries)]
    count = min(_CALIBRATION, len(texts.queries))
    calibration = random.Random(_CONFIG.seed).sample(texts.queries, count)
    report = export_bundle(
        student,
        student.with_name("bundle"),
        calibration_texts=calibration,
        gate=GateData(queries, [str(i) for i in range(len(vectors))], vectors),
        name=f"pocketquery-minilm-{name}",
        license=LICENCE,
        progress=print,
    )
    print(report.manifest.quality)
    return report.manifest


if __name__ == "__main__":
    sys.exit(main())
