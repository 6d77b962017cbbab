"""``pocketquery adapt``: train the bundle's encoder on your own index."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pocketquery.client.adaptation.adaptation import AdaptationConfig
from pocketquery.sdk.commands import chosen_public_key
from pocketquery.sdk.progress import Progress
from pocketquery.sdk.settings.command_line import add_settings_command
from pocketquery.sdk.settings.common import AsJson, PublicKey
from pocketquery.sdk.settings.declaration import Option, Part, Settings
from pocketquery.sdk.validation import whole

if TYPE_CHECKING:
    from pocketquery.client.adaptation.acceptance import AdaptationVerdict
    from pocketquery.client.adaptation.adaptation import Adaptation

__all__ = ["adapt", "ReleaseOptions", "print_verdict"]

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


@dataclass(frozen=True, kw_only=True)
class ReleaseOptions(Settings):
    """What an adapted adapter starts from and is written as."""

    adapter: Annotated[
        str | None, "a release to start from (default: the bundle's own)", Option("FILE")
    ] = None
    version: Annotated[
        str | None, "of the result (default: the old one and -adapted)", Option("NAME")
    ] = None
    signing_key: Annotated[
        str | None, "an Ed25519 private key to sign the release with", Option("PEM")
    ] = None


@dataclass(frozen=True, kw_only=True)
class AdaptOptions(Settings):
    """What ``pocketquery adapt`` takes."""

    bundle: Annotated[str, "with a training step", Option("PATH")]
    public_key: PublicKey = None
    index: Annotated[str, "the documents to adapt to", Option("FOLDER")]
    output: Annotated[str, "the adapter, as a release", Option("FILE")]
    release: ReleaseOptions = ReleaseOptions()
    training: Annotated[
        AdaptationConfig, Part("steps", "batch_size", "seed", most_queries="queries")
    ] = AdaptationConfig()
    threads: Annotated[int, whole(), "of the training"] = 1
    json: AsJson = False


def adapt(subparsers: Any) -> None:
    """Add the sub-command to the shell's parsers."""
    add_settings_command(
        subparsers,
        "adapt",
        "Teach the query encoder the documents of an index: an adapter, no labels.",
        _EPILOG,
        AdaptOptions,
        _run,
    )


def _run(options: AdaptOptions) -> int:
    # onnxruntime comes with these: only when the command runs.
    from pocketquery.client.adaptation.adaptation import adapt as adapt_encoder
    from pocketquery.sdk.bundle.adapter import (
        check_adapter_place,
        pack_adapter,
        read_adapter,
        write_adapter,
    )
    from pocketquery.sdk.bundle.bundle import Bundle
    from pocketquery.sdk.index.index import open_index

    config = options.training
    check_adapter_place(options.output)
    key = chosen_public_key(options)
    bundle = Bundle.open(options.bundle, public_key=key)
    manifest = bundle.manifest
    release_tensors, parent = None, manifest.encoder_version
    if options.release.adapter is not None:
        release = read_adapter(options.release.adapter, manifest=manifest, public_key=key)
        release_tensors, parent = dict(release.tensors), release.version
    described: dict[str, Any] = {
        "manifest": manifest,
        "version": options.release.version or f"{parent}-adapted",
        "parent_version": parent,
        "signing_key": options.release.signing_key,
    }
    if (
        started := release_tensors or bundle.adapter()
    ):  # too large, a wrong key: before minutes of training
        pack_adapter(started, **described)
    with (
        open_index(options.index) as index,
        Progress(config.steps, "adapting", show=not options.json) as bar,
    ):
        adaptation = adapt_encoder(
            bundle,
            index,
            config,
            adapter=release_tensors,
            num_threads=options.threads,
            show=lambda step, rate: bar.update(),
        )
    if adaptation.verdict.accepted:
        write_adapter(Path(options.output), adaptation.adapter, **described)
    _print(adaptation, options)
    return 0 if adaptation.verdict.accepted else 1


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


def _print(adaptation: Adaptation, options: AdaptOptions) -> None:
    verdict = adaptation.verdict
    if options.json:
        shown = verdict.to_dict() | {
            "queries": adaptation.queries,
            "kept_aside": adaptation.kept_aside,
        }
        print(json.dumps(shown | {"output": options.output if verdict.accepted else None}))
        return
    print_verdict(verdict, adaptation.queries, adaptation.kept_aside)
    print(f"written: {options.output}" if verdict.accepted else "refused: nothing was written")
