"""``pocketquery adapt-student``: a student, or a bundle's adapter, taught by one's own index."""

from __future__ import annotations

import argparse
import json
from functools import partial
from typing import Any

from pocketquery.client.adaptation.command import add_release_options, print_verdict
from pocketquery.sdk.commands import (
    Integer,
    Number,
    add_command,
    add_public_key,
    chosen_public_key,
)
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.validation import SEED, number, whole

__all__ = ["adapt_student"]

_EPILOG = """\
examples:
  pocketquery adapt-student --student student --teacher demo --index index --output adapted
  pocketquery export --student adapted --queries queries.tsv --output bundle
  pocketquery adapt-student --student default --teacher demo --index index --output adapted
  pocketquery adapt-student --bundle bundle --teacher demo --index index --output a.safetensors
  pocketquery search --bundle bundle --adapter a.safetensors --index index "a query"

Pseudo-queries are cut from the index's documents; the ranking of each by the index's words and the
teacher's meaning, and that by its meaning alone, teach the student. No label, and no document
encoded again. Queries cut from documents that were kept aside decide: what is not shown to find
more is not written, and the exit status is 1. Killed and run again, it continues where it was.
With --bundle its adapter alone learns: a release of at most 100 KB that devices swap in, for less
of a gain. A bundle's student is read out of it; default is the built-in encoder.
pocketquery adapt does the same without torch, to a lesser gain yet.
"""


def adapt_student(subparsers: Any) -> None:
    """Add the sub-command to the shell's parsers."""
    parser = add_command(
        subparsers,
        "adapt-student",
        "Teach a student, or its bundle's adapter, the documents of an index: no labels.",
        _EPILOG,
        _run,
    )
    add = parser.add_argument
    add(
        "--student",
        metavar="STUDENT",
        help="a folder as distill saves it, or a bundle, by path or name (default: that of "
        "--bundle)",
    )
    add("--index", required=True, metavar="FOLDER", help="the documents to adapt to")
    add("--output", required=True, metavar="PATH", help="the adapted student, or the release")
    add("--teacher", help="of the same space: model folder, Hub name or demo (default: none)")
    add(
        "--rank",
        choices=("hybrid", "teacher", "both"),
        default="both",
        help="what ranks: words and meaning, the teacher's meaning, or half of each (default)",
    )
    add(
        "--interpolation",
        type=Number(number(0.01, 1)),
        default=0.75,
        metavar="SHARE",
        help="of the way from the student's weights to the trained ones; less keeps more of what "
        "it knew of other documents (default: 0.75)",
    )
    add(
        "--steps",
        type=Integer(whole()),
        default=900,
        metavar="N",
        help="of training (default: 900)",
    )
    add(
        "--queries",
        type=Integer(whole()),
        default=9000,
        metavar="N",
        help="pseudo-queries to train on, at most (default: 9000)",
    )
    add(
        "--stretches",
        type=Integer(whole(1, 100)),
        default=6,
        metavar="N",
        help="of a document's sentences that are pseudo-queries, beside its title (default: 6)",
    )
    add(
        "--seed",
        type=Integer(SEED),
        default=0,
        metavar="N",
        help="of everything drawn (default: 0)",
    )
    group = parser.add_argument_group("a release of a bundle's adapter, not a student")
    group.add_argument("--bundle", metavar="PATH", help="whose adapter learns; a path or a name")
    add_release_options(group)
    add_public_key(group)
    add("--device", default="cpu", help="torch device (default: cpu)")
    add("--json", action="store_true", help="print the result as one JSON object")


def _run(arguments: argparse.Namespace) -> int:
    # torch comes with these: only when the command runs, not when its help is shown.
    from dataclasses import replace

    from pocketquery.distill.adapter_adaptation import adapt_adapter, adapter_config
    from pocketquery.distill.bundle_student import bundle_student, load_student
    from pocketquery.distill.student_adaptation import StudentAdaptationConfig, adapt_student
    from pocketquery.sdk.bundle.adapter import read_adapter
    from pocketquery.sdk.bundle.bundle import Bundle
    from pocketquery.sdk.index.index import open_index
    from pocketquery.server.modeling import SentenceEncoder

    _check_options(arguments)
    config = StudentAdaptationConfig() if arguments.bundle is None else adapter_config()
    config = replace(
        config,
        ranked_by=arguments.rank,
        interpolation=arguments.interpolation,
        most_queries=arguments.queries,
        stretches=arguments.stretches,
        training=replace(config.training, steps=arguments.steps, seed=arguments.seed),
    )
    bundle, learn, key = None, adapt_student, chosen_public_key(arguments)
    if arguments.bundle is not None:
        bundle = Bundle.open(arguments.bundle, public_key=key)
        learn = partial(
            adapt_adapter,
            bundle=bundle,
            adapter=None
            if arguments.adapter is None
            else read_adapter(arguments.adapter, manifest=bundle.manifest, public_key=key),
            version=arguments.version,
            signing_key=arguments.signing_key,
        )
    if bundle is not None and arguments.student is None:
        student = bundle_student(bundle, device=arguments.device)
    else:
        student = load_student(arguments.student, public_key=key, device=arguments.device)
    teacher = None
    if arguments.teacher is not None:
        teacher = SentenceEncoder.load(arguments.teacher, device=arguments.device)
    with open_index(arguments.index) as index:
        found = learn(
            student,
            index,
            arguments.output,
            teacher=teacher,
            config=config,
            show_progress_bar=not arguments.json,
        )
    verdict, path = found.verdict, found.path
    if arguments.json:
        said = verdict.to_dict() | {"queries": found.queries, "kept_aside": found.kept_aside}
        said |= {"interpolation": found.interpolation}
        print(json.dumps(said | {"output": None if path is None else str(path)}))
    else:
        print_verdict(verdict, found.queries, found.kept_aside)
        if found.interpolation < config.interpolation:
            print(
                f"went {found.interpolation:.2f} of the way, not {config.interpolation:g}: beyond, "
                "texts of all kinds move too far"
            )
        if any(gain.high < 0 for gain in verdict.gains.values()):
            shorter = found.interpolation / 2
            print(f"less of the way loses less: try --interpolation {shorter:.2f}")
        print("refused: nothing was written" if path is None else f"written: {path}")
    return 0 if verdict.accepted else 1


def _check_options(arguments: argparse.Namespace) -> None:
    if arguments.bundle is not None:
        return
    if arguments.student is None:
        raise InvalidInputError(
            "there is neither --student nor --bundle; expected the student to teach, or the bundle "
            "whose adapter is to learn"
        )
    for name in ("adapter", "version", "signing_key"):
        if getattr(arguments, name) is not None:
            option = "--" + name.replace("_", "-")
            raise InvalidInputError(
                f"{option} is of a release, and there is no --bundle; expected the bundle whose "
                f"adapter is to learn, or no {option}"
            )
