"""Train an encoder into a model folder; a killed run resumes when it is called again.

While it goes on, ``<output>.work`` holds the checkpoint and the log. The model then has beside its
own files ``pretraining.json`` (what it was trained with, and the languages it left out),
``pretraining.jsonl`` (the log) and ``pretraining.html`` (its curves).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pocketquery.sdk.files import real_path, write_atomic
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.layout import check_model_replaceable
from pocketquery.server.modeling.mlm_head import save_mlm_head
from pocketquery.server.pages.page import NO_PLOTS, page, settings_table
from pocketquery.server.pretraining.config import PretrainingConfig
from pocketquery.server.pretraining.distributed import Processes
from pocketquery.server.pretraining.held_out import HeldOut
from pocketquery.server.pretraining.loop import pretrain
from pocketquery.server.pretraining.mixture import Part, left_out_of, name_left_out
from pocketquery.server.pretraining.run_state import run_identity
from pocketquery.server.training.checkpoints import work_folder
from pocketquery.server.training.log import read_log

__all__ = ["TrainingReport", "pretrain_to_folder"]

_SINGLE_PROCESS = Processes()
_NO_HELD_OUT = HeldOut()


@dataclass(frozen=True)
class TrainingReport:
    """What a run came to.

    Attributes:
        path: the model.
        steps: that were taken.
        parameters: of the encoder.
        dimension: of its vectors.
        space_id: of the space they live in.
        last: the last line of the log with a loss: means since the line before.
        alarms: of the last diagnosis.
        languages_left_out: by objective those with too few groups for a batch, and how many.
        resumed: whether an earlier call had begun, or done, it.
    """

    path: Path
    steps: int
    parameters: int
    dimension: int
    space_id: str
    last: dict[str, float]
    alarms: list[str]
    languages_left_out: dict[str, dict[str, int]]
    resumed: bool


def pretrain_to_folder(
    encoder: SentenceEncoder,
    parts: Sequence[Part],
    config: PretrainingConfig,
    output: Path,
    *,
    held_out: HeldOut = _NO_HELD_OUT,
    processes: Processes = _SINGLE_PROCESS,
    show_progress_bar: bool = False,
) -> TrainingReport:
    """Train, or go on training, and save what ships; arguments as of ``pretrain``.

    A run that an earlier call finished is not trained again.

    Raises:
        InvalidInputError: ``output`` holds something else.
        ArtifactError: see ``pretrain``.
    """
    place, work = real_path(output), work_folder(output)  # saving replaces the folder that is "."
    identity = json.loads(json.dumps(run_identity(encoder, parts, config, processes)))
    if processes.first:
        check_model_replaceable(place)
    finished = processes.share(_saved(place).get("identity") == identity)
    resumed = finished or (work / "checkpoint.pt").exists()
    if not finished:
        shipped = pretrain(
            encoder,
            parts,
            config,
            run=work,
            held_out=held_out,
            processes=processes,
            show_progress_bar=show_progress_bar,
        ).to("cpu")
        if processes.first:
            _write(shipped, parts, place, work, identity)
    if processes.first:
        shutil.rmtree(work, ignore_errors=True)
    report = replace(_report(place, resumed=resumed), path=output) if processes.first else None
    shared: TrainingReport = processes.share(report)  # type: ignore[assignment]  # the first's
    return shared


def _write(
    shipped: SentenceEncoder,
    parts: Sequence[Part],
    output: Path,
    work: Path,
    identity: Mapping[str, Any],
) -> None:
    """Write what the run made; pretraining.json comes last and says that all of it is there."""
    shipped.save(output)
    for part in parts:
        part.objective.save_beside(output, shipped)
    save_mlm_head(output, [part.objective for part in parts])
    log = output / "pretraining.jsonl"
    write_atomic(log, (work / "log.jsonl").read_bytes())
    write_run_report(output / "pretraining.html", log, identity)
    described = {"identity": identity, "languages_left_out": left_out_of(read_log(log))}
    write_atomic(output / "pretraining.json", json.dumps(described, indent=1))


def _saved(output: Path) -> dict[str, Any]:
    try:
        saved: dict[str, Any] = json.loads((output / "pretraining.json").read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return saved


def _report(output: Path, *, resumed: bool) -> TrainingReport:
    shipped = SentenceEncoder.load(output)
    rows = read_log(output / "pretraining.jsonl")
    last = next(row for row in reversed(rows) if "loss" in row)
    return TrainingReport(
        path=output,
        steps=last["step"],
        parameters=sum(parameter.numel() for parameter in shipped.parameters()),
        dimension=shipped.dimension,
        space_id=shipped.space_id,
        last={name: value for name, value in last.items() if name != "step"},
        alarms=next((row["alarms"] for row in reversed(rows) if "alarms" in row), []),
        languages_left_out=left_out_of(rows),
        resumed=resumed,
    )


def write_run_report(path: Path, log: Path, settings: Mapping[str, Any]) -> None:
    """Write a self-contained HTML page: no script, no font and no image from elsewhere.

    Args:
        path: of the page.
        log: of the run, JSON lines.
        settings: what it was run with, shown at the end.
    """
    rows = read_log(log)
    last: dict[str, Any] = next((row for row in reversed(rows) if "loss" in row), {})
    alarms: list[str] = next((row["alarms"] for row in reversed(rows) if "alarms" in row), [])
    summary = f"Alarms of the last diagnosis: {', '.join(alarms)}." if alarms else ""
    left_out = left_out_of(rows)
    if left_out:
        summary += f" Languages left out of training, of too few texts: {name_left_out(left_out)}."
    body = f"""{_curves(rows)}
<h2>The last lines' means</h2>
{settings_table(last)}
<h2>Settings</h2>
{settings_table(settings)}"""
    lead = f"{last.get('step', 0)} steps. {summary}"
    write_atomic(path, page("pocketquery: pretraining", lead, body))


def _curves(rows: Sequence[Mapping[str, Any]]) -> str:
    try:
        from pocketquery.server.pretraining.plots import geometry_plot, gradient_plot, loss_plot
    except ImportError:  # the server's extra does not bring matplotlib
        return NO_PLOTS
    curves = f"<h2>Losses</h2>\n{loss_plot(rows)}" if any("loss" in row for row in rows) else ""
    if any("geometry" in row for row in rows):
        curves += f"\n<h2>Geometry of held-out texts</h2>\n{geometry_plot(rows)}"
    if any("gradient_norms" in row for row in rows):
        curves += f"\n<h2>Pull of the losses on the token states</h2>\n{gradient_plot(rows)}"
    return curves
