"""What a study costs, from a few steps of each of its arms."""

from __future__ import annotations

import statistics
import time
from itertools import pairwise
from typing import Any

from study import Study, Trained

from pocketquery.server.pretraining import PretrainingConfig, pretrain

__all__ = ["print_estimate"]

_STEPS, _BEFORE = 6, 2  # steps that are taken, and those that do not count


def print_estimate(study: Study) -> dict[str, Any]:
    """Print and return the core-hours of a study on its corpus, in processor time of one thread.

    Needs no trained start. The sweep of rates and the looks at development texts count; a warm-up
    and further seeds of close arms do not.
    """
    study.begin_anywhere()
    hours: dict[str, float] = {}
    looked = evaluated = 0.0
    for arm in study.arms():
        encoder, parts, config = study.prepared(arm, seed=1)
        trained = Trained(arm, 1, encoder.eval(), [part.objective for part in parts])
        if not evaluated:
            looked, evaluated = _looks(study, trained)
        seeds = len({seed for seed, name in study.runs() if name == arm})
        step = 0.0
        if parts:
            step = _step_seconds(encoder, parts, config)
            every = study.settings.get("choose_every")
            looks = config.steps // every + 1 if every and study.corpus.develop else 0
            hours[arm] = seeds * (step * config.steps + looked * looks + evaluated) / 3600
        else:
            hours[arm] = seeds * evaluated / 3600
        print(
            f"{study.name} {study.corpus.name} {arm}: {step:.3f} s a step, {config.steps} steps, "
            f"{seeds} seeds, {hours[arm]:.2f} core-hours",
            flush=True,
        )
    rates = study.settings.get("rates")
    if rates and "learning_rate" not in study.settings["train"]:
        encoder, parts, config = study.prepared(rates["arm"], seed=0)
        seconds = _step_seconds(encoder, parts, config) * rates["steps"] + looked
        hours["(rates)"] = len(rates["of"]) * seconds / 3600
    total = sum(hours.values())
    print(
        f"{study.name} {study.corpus.name}: {total:.1f} core-hours; a look {looked:.0f} s, an "
        f"evaluation {evaluated:.0f} s"
    )
    rounded = {arm: round(value, 2) for arm, value in hours.items()}
    return {"core_hours": round(total, 1), "arms": rounded}


def _step_seconds(encoder: Any, parts: Any, config: PretrainingConfig) -> float:
    """The median step, in processor seconds."""
    ends: list[float] = []
    short = PretrainingConfig(**{**vars(config), "steps": _STEPS, "diagnose_every": 0})
    pretrain(encoder, parts, short, on_step=lambda step, loss: ends.append(time.process_time()))
    taken = [after - before for before, after in pairwise(ends)]
    return statistics.median(taken[_BEFORE - 1 :])


def _looks(study: Study, trained: Trained) -> tuple[float, float]:
    """Processor seconds of a look at the development texts and of the evaluation."""
    looked = 0.0
    if study.corpus.develop is not None:
        began = time.process_time()
        study.corpus.develop(trained.encoder)
        looked = time.process_time() - began
    if study.corpus.seconds is not None:
        return looked, study.corpus.seconds(trained)
    began = time.process_time()
    study.corpus.evaluate(trained)
    return looked, time.process_time() - began
