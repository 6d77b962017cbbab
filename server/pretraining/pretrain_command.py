"""``pocketquery pretrain``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pocketquery.sdk.commands import Parsed, add_command
from pocketquery.sdk.validation import whole

if TYPE_CHECKING:
    from pocketquery.server.pretraining.config import PretrainingConfig
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


def pretrain(subparsers: Any) -> None:
    """Add the sub-command to the shell's parsers."""
    parser = add_command(
        subparsers,
        "pretrain",
        "Pretrain an encoder on raw text, from scratch or from a model.",
        _EPILOG,
        _run,
    )
    add = parser.add_argument
    add("--output", required=True, metavar="FOLDER", help="where the model goes")
    add(
        "--objective",
        default="mlm",
        metavar="NAME=WEIGHT,...",
        help="what to train with (default: mlm)",
    )
    add(
        "--set",
        action="append",
        default=[],
        metavar="NAME.OPTION=VALUE",
        help="an option of an objective, such as gur.temperature=0.1; may be repeated",
    )
    add("--json", action="store_true", help="print one JSON object")
    _add_texts(parser.add_argument_group("texts"))
    _add_encoder(parser.add_argument_group("encoder"))
    _add_training(parser.add_argument_group("training"))


def _add_texts(group: Any) -> None:
    add = group.add_argument
    for kind, what in (
        ("documents", "sentences or paragraphs in their order"),
        ("sessions", "turns of a dialogue, with who said them"),
        ("pairs", "two texts that belong together"),
        ("triples", "a query, a passage that answers it, some that do not"),
        ("queries", "one text each"),
    ):
        add(f"--{kind}", nargs="+", default=[], metavar="PATH", help=f"{what}; store or raw file")
    add("--lang", default="", help="language of texts that do not say theirs, such as en")
    add("--sentence-lines", action="store_true", help="plain text has one sentence a line")
    add(
        "--held-out",
        type=Parsed(whole(0), int),
        default=1000,
        metavar="N",
        help="texts kept from training, to diagnose the vectors on (default: 1000)",
    )


def _add_encoder(group: Any) -> None:
    add = group.add_argument
    add(
        "--init",
        default="mini",
        metavar="WHAT",
        help="nano, mini (default), small, tinybert4 or teacher: a new encoder of that shape; or a "
        "model's folder or Hub name",
    )
    add("--tokenizer", metavar="WHAT", help="of a new encoder: folder or Hub name")
    add(
        "--vocabulary",
        type=int,
        default=0,
        metavar="N",
        help="without --tokenizer: ids of a vocabulary trained on the texts (default: 8000 for one "
        "language)",
    )
    add("--vocabulary-kind", default="unigram", help="unigram (default) or wordpiece")
    add(
        "--table",
        choices=("cooccurrence", "random"),
        help="of a new encoder: where its token vectors begin, with what occurs together in the "
        "texts (default), which saves thousands of steps, or at random",
    )
    add("--pooling", help="mean (default of new encoders), cls or eos")
    add(
        "--max-length",
        type=Parsed(whole(4), int),
        default=128,
        help="tokens of a text (default: 128)",
    )
    add("--share-layers", action="store_true", help="all layers have one layer's weights (ALBERT)")
    add("--embedding-width", type=int, metavar="N", help="of a factorised vocabulary table")
    add("--pre-norm", action="store_true", help="normalise before each part, not after it")


_TRAINING = {
    "steps": "optimiser steps",
    "batch_size": "groups of a batch, in one process",
    "token_budget": "instead, about so many tokens of a batch",
    "accumulate": "batches whose gradients make one step",
    "cache_rows": "encode so many texts at a time: large contrastive batches in little memory",
    "learning_rate": "peak of AdamW's",
    "schedule": "after the warm-up: linear (to nothing) or constant",
    "warmup": "share of the steps that warm up",
    "weight_decay": "of matrices",
    "max_gradient_norm": "clipping",
    "mixture": "of several objectives: sum of losses in every step, or turns",
    "seed": "of everything random",
    "bfloat16": "autocast: accelerators, processors with AMX or AVX512-BF16; others ignore it",
    "checkpoint_every": "steps between checkpoints",
    "log_every": "steps between lines of the log",
    "diagnose_every": "steps between looks at the vectors and at the losses' pull; 0 for none",
    "patience": "alarming looks in a row after which the run stops; 0 for never",
    "workers": "processes that prepare batches",
}


def _add_training(group: Any) -> None:
    from pocketquery.server.pretraining.config import PretrainingConfig

    for field in fields(PretrainingConfig):
        name, said = f"--{field.name.replace('_', '-')}", _TRAINING[field.name]
        if isinstance(field.default, bool):
            group.add_argument(name, action="store_true", help=said)
            continue
        default: Any = field.default
        said += f" (default: {default})"
        group.add_argument(name, type=type(default), default=default, help=said, metavar="X")
    group.add_argument("--device", default="cpu", help="torch device (default: cpu)")


def _run(arguments: argparse.Namespace) -> int:
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

    weights = parse_objectives(arguments.objective)
    options = parse_options(arguments.set, list(weights))
    config = _config(arguments)
    output = Path(arguments.output)
    work = work_folder(output)
    check_model_replaceable(output)
    processes, device = join_processes(arguments.device)
    sources = open_sources(arguments, options)
    with processes.first_goes_ahead():  # it trains the vocabulary, which the others then read
        encoder = make_encoder(arguments, list(sources.values()), work)
    parts, held_out = make_parts(
        encoder, sources, weights, options, arguments.held_out, arguments.seed
    )
    with processes.first_goes_ahead():  # it counts
        begin_with_counts(arguments, encoder, parts, list(sources.values()), work)
    said = _take_up_heads(arguments.init, parts)
    if said and processes.first:
        print(said, file=sys.stderr)
    report = pretrain_to_folder(
        encoder.to(device),
        parts,
        config,
        output,
        held_out=held_out,
        processes=processes,
        show_progress_bar=True,
    )
    if processes.first:
        _print(report, as_json=arguments.json)
    processes.leave()
    return 0


def _take_up_heads(init: str, parts: Sequence[Part]) -> str:
    """Give the MLM heads of the run the start's; says why where it has one that none can have."""
    from pocketquery.server.modeling.mlm_head import head_misfit, load_mlm_heads
    from pocketquery.server.modeling.presets import PRESETS
    from pocketquery.server.modeling.resolve import DEMO_TEACHER

    if init in (*PRESETS, DEMO_TEACHER):  # a folder of that name is not what the run starts from
        return ""
    objectives = [part.objective for part in parts]
    if load_mlm_heads(Path(init), objectives):
        return ""
    misfit = head_misfit(Path(init), objectives)
    return misfit and f"masked language modelling starts with a new head: {misfit}"


def _config(arguments: argparse.Namespace) -> PretrainingConfig:
    from pocketquery.server.pretraining.config import PretrainingConfig

    names = [field.name for field in fields(PretrainingConfig)]
    return PretrainingConfig(**{name: getattr(arguments, name) for name in names})


def _print(report: TrainingReport, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(asdict(report) | {"path": str(report.path)}))
        return
    print(f"model     {report.path}  ({report.parameters / 1e6:.1f} M parameters)")
    print(f"vectors   {report.dimension} dimensions, space {report.space_id}")
    print(f"trained   {report.steps} steps, last mean loss {report.last['loss']:.4f}")
    print(f"speed     {report.last['tokens_per_second']:.0f} tokens/s")
    print(f"alarms    {', '.join(report.alarms) or 'none'}")
    print(f"report    {report.path / 'pretraining.html'}")
