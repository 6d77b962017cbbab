"""``pocketquery pretrain``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pocketquery.sdk.settings.command_line import add_settings_command
from pocketquery.sdk.settings.common import AsJson, Device, Paths
from pocketquery.sdk.settings.declaration import Option, Settings, as_json
from pocketquery.sdk.validation import whole
from pocketquery.server.pretraining.config import PretrainingConfig

if TYPE_CHECKING:
    from pocketquery.server.pretraining.mixture import Part
    from pocketquery.server.pretraining.training_run import TrainingReport

__all__ = ["pretrain"]

_EPILOG = """\
examples:
  # from scratch, with a vocabulary trained on the same articles
  pocketquery pretrain --documents articles.jsonl.gz --objective mlm --steps 2000 --output base
  # go on from it with sessions, two objectives in every step
  pocketquery pretrain --init base --sessions train.jsonl.gz --objective auto_mlm=1,mlm=0.5 \\
      --set auto_mlm.margin=0.1 --steps 3000 --output encoder
  # two processes of this machine (or more machines: see torchrun --help)
  torchrun --nproc-per-node 2 -m pocketquery.sdk pretrain --documents store --output base

objectives and the texts they learn from, the preferred first:
  mlm           masked words                     documents, sessions, pairs, queries
  simcse        two dropouts of one text         documents, queries, sessions, pairs
  contrastive   texts of one group               sessions, pairs, documents
  auto_mlm      Auto-MLM                         sessions, pairs, documents, queries
  query_bert    Query-BERT (BYOL)                queries, ...
  cpdae         CPDAE                            documents
  ccp           CCP, many languages              documents, sessions
  gur           GUR                              pairs (pocketquery mine pairs), documents
  fine_tune     queries and hard negatives       triples (pocketquery mine triples)
  ict           a sentence finds its passage     documents
Baselines (cmlm, prop, seed, tsdae: documents) are in research/: pip install -e ./research

Texts come as a store (pocketquery mine store) or as a raw file: JSON Lines, a table separated by
tabs, or plain text with blank lines between documents; plain, gzip or xz. Documents may also be a
folder of text, Markdown, reStructuredText and HTML files. The model is a sentence-transformers
folder, which distill, export and evaluate take as their --teacher. Killed and run again, a run
continues where it was; --json prints its figures as one object.
"""


@dataclass(frozen=True, kw_only=True)
class TextOptions(Settings):
    """What is learnt from."""

    documents: Annotated[Paths, "sentences or paragraphs in their order; store or raw file"] = ()
    sessions: Annotated[Paths, "turns of a dialogue, with who said them; store or raw file"] = ()
    pairs: Annotated[Paths, "two texts that belong together; store or raw file"] = ()
    triples: Annotated[
        Paths, "a query, a passage that answers it, some that do not; store or raw file"
    ] = ()
    queries: Annotated[Paths, "one text each; store or raw file"] = ()
    lang: Annotated[str, "language of texts that do not say theirs, such as en"] = ""
    sentence_lines: Annotated[bool, "plain text has one sentence a line"] = False
    held_out: Annotated[int, whole(0), "texts kept from training, to diagnose the vectors on"] = (
        1000
    )


@dataclass(frozen=True, kw_only=True)
class EncoderOptions(Settings):
    """What is trained."""

    init: Annotated[
        str,
        "nano, mini, small, tinybert4 or teacher: a new encoder of that shape; or a model's folder "
        "or Hub name",
        Option("WHAT"),
    ] = "mini"
    tokenizer: Annotated[str | None, "of a new encoder: folder or Hub name", Option("WHAT")] = None
    vocabulary: Annotated[
        int,
        "without --tokenizer: ids of a vocabulary trained on the texts (default: 8000 for one "
        "language)",
    ] = 0
    vocabulary_kind: Annotated[str, "unigram or wordpiece"] = "unigram"
    table: Annotated[
        Literal["cooccurrence", "random"] | None,
        "of a new encoder: where its token vectors begin, with what occurs together in the texts "
        "(default), which saves thousands of steps, or at random",
    ] = None
    pooling: Annotated[str | None, "mean (default of new encoders), cls or eos"] = None
    max_length: Annotated[int, whole(4), "tokens of a text"] = 128


@dataclass(frozen=True, kw_only=True)
class PretrainOptions(Settings):
    """What ``pocketquery pretrain`` takes."""

    output: Annotated[str, "where the model goes", Option("FOLDER")]
    objective: Annotated[str, "what to train with", Option("NAME=WEIGHT,...")] = "mlm"
    set: Annotated[
        tuple[str, ...],
        "an option of an objective, such as gur.temperature=0.1; may be repeated",
        Option("NAME.OPTION=VALUE", repeated=True),
    ] = ()
    json: AsJson = False
    texts: Annotated[TextOptions, "texts"] = TextOptions()
    encoder: Annotated[EncoderOptions, "encoder"] = EncoderOptions()
    training: Annotated[PretrainingConfig, "training"] = PretrainingConfig()
    device: Device = "cpu"


def pretrain(subparsers: Any) -> None:
    """Add the sub-command to the shell's parsers."""
    add_settings_command(
        subparsers,
        "pretrain",
        "Pretrain an encoder on raw text, from scratch or from a model.",
        _EPILOG,
        PretrainOptions,
        _run,
    )


def _run(options: PretrainOptions) -> int:
    # torch comes with these: only when the command runs, not when its help is shown.
    from pocketquery.server.modeling.layout import check_model_replaceable
    from pocketquery.server.pretraining.command_parts import (
        begin_with_counts,
        make_encoder,
        make_parts,
        open_sources,
        parse_objectives,
        parse_options,
    )
    from pocketquery.server.pretraining.distributed import join_processes
    from pocketquery.server.pretraining.training_run import pretrain_to_folder
    from pocketquery.server.training.checkpoints import work_folder

    weights = parse_objectives(options.objective)
    chosen = parse_options(options.set, list(weights))
    encoding, seed = options.encoder, options.training.seed
    output = Path(options.output)
    work = work_folder(output)
    check_model_replaceable(output)
    processes, device = join_processes(options.device)
    sources = open_sources(options.texts, chosen)
    texts = list(sources.values())
    with processes.first_goes_ahead():  # it trains the vocabulary, which the others then read
        encoder = make_encoder(encoding, texts, work, seed)
    parts, held_out = make_parts(encoder, sources, weights, chosen, options.texts.held_out, seed)
    with processes.first_goes_ahead():  # it counts
        begin_with_counts(encoding, encoder, parts, texts, work, seed)
    misfit = _load_heads(encoding.init, parts)
    if misfit and processes.first:
        print(misfit, file=sys.stderr)
    report = pretrain_to_folder(
        encoder.to(device),
        parts,
        options.training,
        output,
        held_out=held_out,
        processes=processes,
        show_progress_bar=True,
    )
    if processes.first:
        _print(report, prints_json=options.json)
    processes.leave()
    return 0


def _load_heads(init: str, parts: Sequence[Part]) -> str:
    """Give the MLM heads of the run the start's; says why where it has one that none can have."""
    from pocketquery.server.modeling.mlm_head import head_misfit, load_mlm_heads
    from pocketquery.server.modeling.presets import PRESETS
    from pocketquery.server.modeling.resolve import OFFLINE_TEACHERS

    if init in (
        *PRESETS,
        *OFFLINE_TEACHERS,
    ):  # a folder of that name is not what the run starts from
        return ""
    objectives = [part.objective for part in parts]
    if load_mlm_heads(Path(init), objectives):
        return ""
    misfit = head_misfit(Path(init), objectives)
    return misfit and f"masked language modelling starts with a new head: {misfit}"


def _print(report: TrainingReport, *, prints_json: bool) -> None:
    if prints_json:
        print(json.dumps(as_json(report)))
        return
    print(f"model     {report.path}  ({report.parameters / 1e6:.1f} M parameters)")
    print(f"vectors   {report.dimension} dimensions, space {report.space_id}")
    print(f"trained   {report.steps} steps, last mean loss {report.last['loss']:.4f}")
    print(f"speed     {report.last['tokens_per_second']:.0f} tokens/s")
    print(f"alarms    {', '.join(report.alarms) or 'none'}")
    print(f"report    {report.path / 'pretraining.html'}")
