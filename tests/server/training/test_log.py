from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pocketquery.server.training.log import (
    Meter,
    append_line,
    read_log,
    trim_log,
)


def test_means_are_of_what_was_added_and_sums_of_what_was_counted() -> None:
    meter = Meter()
    meter.add({"a": torch.tensor(1.0), "b": 2.0})
    meter.add({"a": torch.tensor(4.0, requires_grad=True)})
    meter.count(tokens=30, examples=2, skipped=1)
    meter.count(tokens=10, examples=0, skipped=1)
    found = meter.read()
    assert (found["a"], found["b"], found["skipped_batches"]) == (2.5, 2.0, 2)
    assert found["tokens_per_second"] == pytest.approx(20 * found["examples_per_second"])


def test_a_log_goes_on_after_the_step_it_resumes_from(tmp_path: Path) -> None:
    log = tmp_path / "new" / "log.jsonl"
    for step in (2, 4, 6):
        append_line(log, {"step": step, "loss": 1 / 3, "deep": {"x": 1e-9 / 3}})
    with log.open("a") as file:
        file.write('{"step": 8, "lo')  # a kill in the middle of a line
    assert [row["step"] for row in read_log(log)] == [2, 4, 6]
    trim_log(log, 4)
    append_line(log, {"step": 6, "loss": 0.25})
    assert [row["step"] for row in read_log(log)] == [2, 4, 6]
    assert read_log(log)[0] == {"step": 2, "loss": 0.333333, "deep": {"x": 3.33333e-10}}


def test_without_a_log_there_is_nothing_to_read_or_trim(tmp_path: Path) -> None:
    trim_log(tmp_path / "none", 3)
    assert read_log(tmp_path / "none") == []
