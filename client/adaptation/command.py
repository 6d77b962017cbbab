"""``pocketquery adapt``: the bundle's encoder, taught by one's own index."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pocketquery.sdk.commands import Integer, add_command, add_public_key, chosen_public_key
from pocketquery.sdk.progress import Progress
from pocketquery.sdk.validation import SEED, whole

if TYPE_CHECKING:
    from pocketquery.client.adaptation.acceptance import AdaptationVerdict
    from pocketquery.client.adaptation.adaptation import Adaptation

__all__ = ["adapt", "add_release_options", "print_verdict"]

_EPILOG = """\
examples:
  pocketquery adapt --bundle demo/bundle --index demo/index --output adapted.safetensors
  pocketquery search --bundle demo/bundle --adapter adapted.safetensors --index demo/index "sugar"
  pocketquery adapt --bundle bundle --index index --output adapted.safetensors \\
      --adapter release-7.safetensors --signing-key publisher.pem --version 7-tickets

The bundle must carry a training step (pocketquery export --training-step). Pseudo-queries are cut
from the index's documents and ranked by words and meaning together; that ranking teaches the
encoder, whose own is by meaning alone. No label is needed, nothing is sent, no document is encoded
again. Queries cut from documents that were kept aside decide: what is not shown to find more is
not written, and the exit status is 1.
"""


def adapt(subparsers: Any) -> None:
    """Add the sub-command to the shell's parsers."""
    parser = add_command(
        subparsers,
        "adapt",
        "Teach the query encoder the documents of an index: an adapter, no labels.",
        _EPILOG,
        _run,
    )
    add = parser.add_argument
    add("--bundle", required=True, metavar="PATH", help="with a training step")
    add_public_key(parser)
    add("--index", required=True, metavar="FOLDER", help="the documents to adapt to")
    add("--output", required=True, metavar="FILE", help="the adapter, as a release")
    add_release_options(parser)
    add(
        "--steps",
        type=Integer(whole()),
        default=200,
        metavar="N",
        help="of training (default: 200)",
    )
    add(
        "--batch-size",
        type=Integer(whole()),
        default=32,
        metavar="N",
        help="queries a step (default: 32)",
    )
    add(
        "--queries",
        type=Integer(whole()),
        default=3000,
        metavar="N",
        help="pseudo-queries to train on, at most (default: 3000)",
    )
    add(
        "--seed",
        type=Integer(SEED),
        default=0,
        metavar="N",
        help="of everything drawn (default: 0)",
    )
    add(
        "--threads",
        type=Integer(whole()),
        default=1,
        metavar="N",
        help="of the training (default: 1)",
    )
    add("--json", action="store_true", help="print the result as one JSON object")


def add_release_options(parser: Any) -> None:
    """Add the options of what an adapted adapter starts from and is written as, to a parser or a
    group of its options."""
    add = parser.add_argument
    add("--adapter", metavar="FILE", help="a release to start from (default: the bundle's own)")
    add("--version", metavar="NAME", help="of the result (default: the old one and -adapted)")
    add("--signing-key", metavar="PEM", help="an Ed25519 private key to sign the release with")


def _run(arguments: argparse.Namespace) -> int:
    # numpy and onnxruntime come with these: only when the command runs.
    from pocketquery.client.adaptation.adaptation import AdaptationConfig
    from pocketquery.client.adaptation.adaptation import adapt as adapt_encoder
    from pocketquery.sdk.bundle.adapter import (
        check_adapter_place,
        pack_adapter,
        read_adapter,
        write_adapter,
    )
    from pocketquery.sdk.bundle.bundle import Bundle
    from pocketquery.sdk.index.index import open_index

    config = AdaptationConfig(
        steps=arguments.steps,
        batch_size=arguments.batch_size,
        most_queries=arguments.queries,
        seed=arguments.seed,
    )
    check_adapter_place(arguments.output)
    key = chosen_public_key(arguments)
    bundle = Bundle.open(arguments.bundle, public_key=key)
    manifest = bundle.manifest
    given, parent = None, manifest.encoder_version
    if arguments.adapter is not None:
        release = read_adapter(arguments.adapter, manifest=manifest, public_key=key)
        given, parent = dict(release.tensors), release.version
    described: dict[str, Any] = {
        "manifest": manifest,
        "version": arguments.version or f"{parent}-adapted",
        "parent_version": parent,
        "signing_key": arguments.signing_key,
    }
    if started := given or bundle.adapter():  # too large, a wrong key: before minutes of training
        pack_adapter(started, **described)
    with (
        open_index(arguments.index) as index,
        Progress(config.steps, "adapting", show=not arguments.json) as bar,
    ):
        found = adapt_encoder(
            bundle,
            index,
            config,
            adapter=given,
            num_threads=arguments.threads,
            show=lambda step, rate: bar.update(),
        )
    if found.verdict.accepted:
        write_adapter(Path(arguments.output), found.adapter, **described)
    _print(found, arguments)
    return 0 if found.verdict.accepted else 1


def print_verdict(verdict: AdaptationVerdict, queries: int, kept_aside: int) -> None:
    """What an adaptation gained, for a person."""
    print(
        f"{queries} pseudo-queries taught; nDCG@10 of the document each of {kept_aside} others was "
        "cut from:"
    )
    for name, gain in verdict.gains.items():
        print(
            f"  {name[0]:6}  {name[1]:8}  {verdict.before[name]:.3f} -> {verdict.after[name]:.3f}  "
            f"{gain.estimate:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]"
        )
    print(f"  texts of all kinds moved by {verdict.drift:.3f} (mean of 1 - cos)")
    print(verdict.reason)


def _print(found: Adaptation, arguments: argparse.Namespace) -> None:
    verdict = found.verdict
    if arguments.json:
        said = verdict.to_dict() | {"queries": found.queries, "kept_aside": found.kept_aside}
        print(json.dumps(said | {"output": arguments.output if verdict.accepted else None}))
        return
    print_verdict(verdict, found.queries, found.kept_aside)
    print(f"written: {arguments.output}" if verdict.accepted else "refused: nothing was written")
