"""``pocketquery distill``."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pocketquery.distill.settings import StudentConfig, TrainingConfig
from pocketquery.sdk.commands import chosen_public_key
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.settings.command_line import add_settings_command
from pocketquery.sdk.settings.common import AsJson, Device, PublicKey
from pocketquery.sdk.settings.declaration import Option, Part, Settings, as_json
from pocketquery.sdk.validation import number, whole

if TYPE_CHECKING:
    from pocketquery.distill.vector_file import FileTeacher
    from pocketquery.server.modeling import SentenceEncoder

__all__ = ["distill"]

_EPILOG = """\
examples:
  pocketquery distill --corpus corpus.jsonl.gz --queries queries.tsv.gz --output student
  pocketquery distill --corpus corpus.jsonl --student 2x128 --vocabulary 8000 --output tiny
  pocketquery distill --teacher BAAI/bge-small-en-v1.5 --texts log.txt --typos 0.35 --output student
  pocketquery distill --start student --texts newer.txt --interpolation 0.5 --output student-2
  pocketquery distill --start default --corpus corpus.jsonl --output mine
  pocketquery distill --teacher vectors.parquet --output student

The student learns from queries (--queries, or --texts with one a line) and from sentences of the
corpus, and to rank the corpus as the teacher does. A file of vectors has texts of its own. Killed
and run again, it continues where it was.
"""


@dataclass(frozen=True, kw_only=True)
class DistillOptions(Settings):
    """What ``pocketquery distill`` takes."""

    teacher: Annotated[
        str,
        "model folder, Hub name, demo, multilingual, or a file of texts and vectors: Parquet or "
        "npz with text, vector and, if you like, role (query or document)",
    ] = "demo"
    output: Annotated[str, "where the student goes", Option("FOLDER")]
    corpus: Annotated[
        str | None, "documents to search: corpus.jsonl, plain, gzip or xz", Option("FILE")
    ] = None
    queries: Annotated[
        str | None, "queries as tsv (id, text) or jsonl, plain, gzip or xz", Option("FILE")
    ] = None
    texts: Annotated[str | None, "more queries, one a line, plain, gzip or xz", Option("FILE")] = (
        None
    )
    student: Annotated[
        StudentConfig | None, Part("shape", "layers", "vocabulary_size", "max_length")
    ] = None
    start: Annotated[
        str | None,
        "go on from this student, with its shape and vocabulary: a folder as distill saves it, or "
        "a bundle, by its path or name; default is the built-in encoder. Of another space than the "
        "teacher's, or any BERT-like folder: its layers are what the student is made of. words: "
        "of the texts and their vectors alone (default: the teacher's layers, where possible)",
        Option("WHAT"),
    ] = None
    tokenizer: Annotated[
        str | None, "another vocabulary than the start's: its folder or Hub name", Option("WHAT")
    ] = None
    interpolation: Annotated[
        float,
        number(above=0, most=1),
        "with --start: how far to go from its weights to the trained ones",
        Option("SHARE"),
    ] = 1.0
    feed_forward: Annotated[
        int | None, whole(), "with --start: widen the feed-forward part of its layers to N first"
    ] = None
    training: Annotated[
        TrainingConfig,
        Part(
            *("steps", "batch_size", "learning_rate", "typo_rate", "quantised_share", "seed"),
            "bfloat16",
            typo_share="typos",
        ),
    ] = TrainingConfig(learning_rate=3e-4)
    device: Device = "cpu"
    public_key: PublicKey = None
    json: AsJson = False


def distill(subparsers: Any) -> None:
    """Add the sub-command to the shell's parsers."""
    add_settings_command(
        subparsers,
        "distill",
        "Distil a teacher into a light query encoder that lands in its vector space.",
        _EPILOG,
        DistillOptions,
        _run,
    )


def _run(options: DistillOptions) -> int:
    # torch comes with these: only when the command runs, not when its help is shown.
    from pocketquery.distill.distillation import distill
    from pocketquery.distill.student_of_bundle import load_student
    from pocketquery.distill.teachers import load_teacher
    from pocketquery.distill.vector_file import SUFFIXES, FileTeacher
    from pocketquery.server.modeling.loading import load_tokenizer

    place = Path(options.teacher)
    is_of_vectors = place.is_file() or place.suffix in SUFFIXES
    teacher = FileTeacher(place) if is_of_vectors else None
    texts, documents = _texts(options) if teacher is None else _texts_of(teacher, options)
    start: SentenceEncoder | Literal["words"] | None = None
    if options.start == "words":
        start = "words"
    elif options.start is not None:
        start = load_student(options.start, public_key=chosen_public_key(options))
    report = distill(
        teacher or load_teacher(options.teacher, device=options.device),
        texts,
        options.output,
        documents=documents,
        student=options.student,
        start=start,
        tokenizer=options.tokenizer and load_tokenizer(options.tokenizer),
        feed_forward=options.feed_forward,
        interpolation=options.interpolation,
        config=replace(
            options.training, max_length=(options.student or StudentConfig()).max_length
        ),
        device=options.device,
        show_progress_bar=True,
    )
    if options.json:
        print(json.dumps(as_json(report)))
        return 0
    print(
        f"student   {report.path}  ({report.student}, {report.parameters / 1e6:.1f} M parameters)"
    )
    print(f"began as  {report.start}")
    print(f"learnt    {report.texts} texts, ranking {report.documents} documents")
    print(f"subwords  {report.vocabulary}")
    print(f"space     {report.space_id}")
    return 0


def _texts(options: DistillOptions) -> tuple[list[str], list[str]]:
    """Texts to learn from, and documents to rank."""
    from pocketquery.distill.texts import query_like_texts, unique_texts
    from pocketquery.sdk.index.documents import content
    from pocketquery.server.corpus import read_documents

    corpus = list(read_documents(options.corpus)) if options.corpus else []
    texts = unique_texts([*_queries(options), *query_like_texts(corpus, options.training.seed)])
    if not texts:
        sources = [one for one in (options.corpus, options.queries, options.texts) if one]
        if sources:
            raise InvalidInputError(
                f"found no text in {', '.join(sources)}, expected at least one to learn from"
            )
        raise InvalidInputError("nothing to learn from; give --corpus, --queries or --texts")
    return texts, [content(document) for document in corpus]


def _texts_of(teacher: FileTeacher, options: DistillOptions) -> tuple[list[str], list[str]]:
    if options.corpus or options.queries or options.texts:
        raise InvalidInputError(
            f"{options.teacher} has texts of its own to learn from; leave --corpus, --queries and "
            "--texts out"
        )
    omitted = f"{teacher.blank} blank and {teacher.repeated} repeated rows left out"
    print(
        f"vectors   {len(teacher.texts)} texts, {len(teacher.documents)} documents; {omitted}",
        file=sys.stderr,
    )
    return teacher.texts, teacher.documents


def _queries(options: DistillOptions) -> list[str]:
    from pocketquery.server.corpus import read_queries
    from pocketquery.server.corpus.readers.lines import numbered_lines

    texts = [query.text for query in read_queries(options.queries)] if options.queries else []
    if options.texts:
        texts += [line for _, line in numbered_lines(options.texts)]
    return texts
