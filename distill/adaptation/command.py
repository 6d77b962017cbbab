"""``pocketquery adapt-student``: train a student, or a bundle's adapter, on your own index."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

from pocketquery.client.adaptation.command import ReleaseOptions, print_verdict
from pocketquery.distill.settings import StudentAdaptationConfig, TrainingConfig
from pocketquery.sdk.commands import chosen_public_key
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.settings.command_line import add_settings_command
from pocketquery.sdk.settings.common import AsJson, Device, PublicKey
from pocketquery.sdk.settings.declaration import Option, Part, Settings

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


@dataclass(frozen=True, kw_only=True)
class StudentReleaseOptions(ReleaseOptions):
    """Of which bundle an adapter learns, and what becomes of it."""

    bundle: Annotated[str | None, "whose adapter learns; a path or a name", Option("PATH")] = None
    public_key: PublicKey = None


@dataclass(frozen=True, kw_only=True)
class AdaptStudentOptions(Settings):
    """What ``pocketquery adapt-student`` takes."""

    student: Annotated[
        str | None,
        "a folder as distill saves it, or a bundle, by path or name (default: that of --bundle)",
        Option("STUDENT"),
    ] = None
    index: Annotated[str, "the documents to adapt to", Option("FOLDER")]
    output: Annotated[str, "the adapted student, or the release", Option("PATH")]
    teacher: Annotated[
        str | None,
        "of the same space: model folder, Hub name, demo or multilingual (default: none)",
    ] = None
    how: Annotated[
        StudentAdaptationConfig,
        Part("interpolation", "stretches", ranked_by="rank", most_queries="queries"),
    ] = StudentAdaptationConfig()
    training: Annotated[TrainingConfig, Part("steps", "seed")] = StudentAdaptationConfig.training
    release: Annotated[StudentReleaseOptions, "a release of a bundle's adapter, not a student"] = (
        StudentReleaseOptions()
    )
    device: Device = "cpu"
    json: AsJson = False


def adapt_student(subparsers: Any) -> None:
    """Add the sub-command to the shell's parsers."""
    add_settings_command(
        subparsers,
        "adapt-student",
        "Teach a student, or its bundle's adapter, the documents of an index: no labels.",
        _EPILOG,
        AdaptStudentOptions,
        _run,
    )


def _run(options: AdaptStudentOptions) -> int:
    # torch comes with these: only when the command runs, not when its help is shown.
    from pocketquery.distill.adaptation.adapter_adaptation import adapt_adapter, adapter_config
    from pocketquery.distill.adaptation.student_adaptation import adapt_student
    from pocketquery.distill.student_of_bundle import bundle_student, load_student
    from pocketquery.sdk.bundle.adapter import read_adapter
    from pocketquery.sdk.bundle.bundle import Bundle
    from pocketquery.sdk.index.index import open_index
    from pocketquery.server.modeling import SentenceEncoder

    _check_options(options)
    release = options.release
    training = options.how.training if release.bundle is None else adapter_config().training
    steps, seed = options.training.steps, options.training.seed
    config = replace(options.how, training=replace(training, steps=steps, seed=seed))
    bundle, learn, key = None, adapt_student, chosen_public_key(release)
    if release.bundle is not None:
        bundle = Bundle.open(release.bundle, public_key=key)
        learn = partial(
            adapt_adapter,
            bundle=bundle,
            adapter=None
            if release.adapter is None
            else read_adapter(release.adapter, manifest=bundle.manifest, public_key=key),
            version=release.version,
            signing_key=release.signing_key,
        )
    if bundle is not None and options.student is None:
        student = bundle_student(bundle, device=options.device)
    else:
        student = load_student(options.student or "", public_key=key, device=options.device)
    teacher = None
    if options.teacher is not None:
        teacher = SentenceEncoder.load(options.teacher, device=options.device)
    with open_index(options.index) as index:
        result = learn(
            student,
            index,
            options.output,
            teacher=teacher,
            config=config,
            show_progress_bar=not options.json,
        )
    verdict, path = result.verdict, result.path
    if options.json:
        summary = verdict.to_dict() | {"queries": result.queries, "kept_aside": result.kept_aside}
        summary |= {"interpolation": result.interpolation}
        print(json.dumps(summary | {"output": None if path is None else str(path)}))
    else:
        print_verdict(verdict, result.queries, result.kept_aside)
        if result.interpolation < config.interpolation:
            print(
                f"interpolation {result.interpolation:.2f}, not {config.interpolation:g}: beyond, "
                "texts of all kinds move too far"
            )
        if any(gain.high < 0 for gain in verdict.gains.values()):
            shorter = result.interpolation / 2
            print(f"less of the way loses less: try --interpolation {shorter:.2f}")
        print("refused: nothing was written" if path is None else f"written: {path}")
    return 0 if verdict.accepted else 1


def _check_options(options: AdaptStudentOptions) -> None:
    if options.release.bundle is not None:
        return
    if options.student is None:
        raise InvalidInputError(
            "there is neither --student nor --bundle; expected the student to teach, or the bundle "
            "whose adapter is to learn"
        )
    for name in ("adapter", "version", "signing_key"):
        if getattr(options.release, name) is not None:
            option = "--" + name.replace("_", "-")
            raise InvalidInputError(
                f"{option} is of a release, and there is no --bundle; expected the bundle whose "
                f"adapter is to learn, or no {option}"
            )
