"""Two processes on this machine: the same weights in both, and those of one process alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.pretraining import Processes, join_processes
from pocketquery.server.pretraining.distributed import _buckets
from tests.server.pretraining.small_run import losses
from tests.server.pretraining.two_processes import CONFIG
from tests.tiny_models import sentences

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Of two processes, started by torchrun."""
    folder = tmp_path_factory.mktemp("pair")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", "-m", "tests.server.pretraining.two_processes"]
    subprocess.run(
        [*command, str(folder)],
        cwd=ROOT,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        timeout=1500,  # which only a hang reaches
    )
    return [json.loads((folder / f"report.{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.slow
def test_both_end_with_the_same_weights_though_they_began_with_others(
    reports: list[dict[str, Any]],
) -> None:
    first, second = reports
    assert first["count"] == second["count"] == 2
    assert first["weights"] == second["weights"]
    assert first["whole"] == second["whole"]


@pytest.mark.slow
def test_an_interrupted_pair_goes_on_to_the_same_losses_each_with_its_own_bank(
    reports: list[dict[str, Any]],
) -> None:
    for report in reports:
        assert report["begun"] == report["whole"][:6]
        assert report["resumed"] == report["whole"][4:]
        assert report["weights_resumed"] == report["weights"]


@pytest.mark.slow
def test_two_processes_do_what_one_does_with_twice_the_micro_batches(
    reports: list[dict[str, Any]],
) -> None:
    """Their micro-batches are numbered together, so the gradients differ by rounding alone."""
    assert reports[0]["plain"] == pytest.approx(losses(replace(CONFIG, accumulate=2)), rel=1e-4)


@pytest.mark.slow
def test_gradients_are_averaged_and_one_that_nobody_has_stays_none(
    reports: list[dict[str, Any]],
) -> None:
    for report in reports:
        assert report["means"] == [1.5, 1.0, None]


@pytest.mark.slow
def test_the_command_with_two_processes_makes_one_model_and_goes_on_after_a_kill(
    tmp_path: Path,
) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("\n\n".join(sentences(200)), encoding="utf-8")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", "-m", "pocketquery.sdk", "pretrain", "--init", "nano"]
    command += ["--documents", str(texts), "--vocabulary", "400", "--batch-size", "4"]
    command += ["--checkpoint-every", "20", "--steps", "200", "--held-out", "20", "--json"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}

    def run(output: Path) -> dict[str, Any]:
        found = subprocess.run(
            [*command, "--output", str(output)],
            check=True,
            env=environment,
            stdout=subprocess.PIPE,
            timeout=1500,  # which only a hang reaches
        )
        report: dict[str, Any] = json.loads(found.stdout)  # of the first process alone
        return report

    killed, checkpoint = tmp_path / "killed", tmp_path / "killed.work" / "checkpoint.pt"
    group = subprocess.Popen(
        [*command, "--output", str(killed)], env=environment, start_new_session=True
    )
    try:
        until = time.monotonic() + 1000  # which only a hang reaches
        while not checkpoint.is_file():
            assert group.poll() is None, "it ended before it was killed"
            assert time.monotonic() < until, "it left no checkpoint"
            time.sleep(0.01)
    finally:
        os.killpg(group.pid, signal.SIGKILL)
        group.wait()
    assert not killed.exists()
    assert run(killed)["space_id"] == run(tmp_path / "whole")["space_id"]


def test_alone_nothing_happens() -> None:
    alone, device = join_processes("cpu")
    assert (alone, device) == (Processes(0, 1), "cpu")
    parameter = nn.Parameter(torch.ones(3))
    alone.average_gradients([parameter])
    assert parameter.grad is None
    assert alone.sum([1.0, 2.0], torch.device("cpu")) == [1.0, 2.0]
    assert alone.share({"a": 1}) == {"a": 1}


def test_half_an_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(InvalidInputError, match="WORLD_SIZE is 2 and RANK is not set"):
        join_processes()


def test_gradients_travel_in_few_pieces_of_one_type() -> None:
    sizes = [5, 2**24, 3, 4]
    parameters = [nn.Parameter(torch.empty(size, device="meta")) for size in sizes]
    parameters.append(nn.Parameter(torch.empty(2, dtype=torch.float64, device="meta")))
    found = [[p.numel() for p in bucket] for bucket in _buckets(parameters)]
    assert found == [[5], [2**24], [3, 4], [2]]
