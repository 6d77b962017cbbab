from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.federation.rounds.server_optimizers import (
    FedAdam,
    FedAvg,
    FedAvgM,
    FedYogi,
    ServerOptimizer,
    optimizer_from_dict,
)

values = st.floats(-1, 1).map(lambda value: float(np.float32(value)))
series = st.lists(values, min_size=1, max_size=5)
ALL = [FedAvg(), FedAvgM(), FedAdam(), FedYogi()]


def run(optimizer: ServerOptimizer, start: float, changes: list[float]) -> float:
    """Steps on one value."""
    tensors = {"w": np.array([start], np.float32)}
    moments: dict[str, Any] = {}
    for change in changes:
        tensors, moments = optimizer.apply(tensors, {"w": np.array([change])}, moments)
    return float(tensors["w"][0])


def by_the_paper(optimizer: ServerOptimizer, start: float, changes: list[float]) -> float:
    """The same, written out for a single number from the papers' formulas."""
    x, m, v = start, 0.0, getattr(optimizer, "tau", 0.0) ** 2
    for d in changes:
        match optimizer:
            case FedYogi() | FedAdam():
                b1, b2 = optimizer.beta1, optimizer.beta2
                m = b1 * m + (1 - b1) * d
                if isinstance(optimizer, FedYogi):
                    v = v - (1 - b2) * d * d * ((v > d * d) - (v < d * d))
                else:
                    v = b2 * v + (1 - b2) * d * d
                x += optimizer.learning_rate * m / (math.sqrt(v) + optimizer.tau)
            case FedAvgM():
                m = optimizer.momentum * m + d
                x += optimizer.learning_rate * m
            case _:
                x += optimizer.learning_rate * d
    return x


def test_steps_by_hand() -> None:
    assert run(FedAvg(), 1.0, [0.5, -0.25]) == 1.25
    assert run(FedAvg(learning_rate=0.5), 1.0, [0.5]) == 1.25
    assert run(FedAvgM(momentum=0.5), 0.0, [1.0, 1.0]) == 2.5
    adam = FedAdam(learning_rate=1.0, beta1=0.0, beta2=0.0, tau=1.0)
    assert run(adam, 0.0, [3.0]) == 0.75


@pytest.mark.parametrize("optimizer", ALL)
@given(start=values, changes=series)
def test_the_formulas_of_the_papers(
    optimizer: ServerOptimizer, start: float, changes: list[float]
) -> None:
    wanted = by_the_paper(optimizer, start, changes)
    assert run(optimizer, start, changes) == pytest.approx(wanted, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("optimizer", ALL)
@given(start=values, changes=series)
def test_the_opposite_changes_go_the_opposite_way(
    optimizer: ServerOptimizer, start: float, changes: list[float]
) -> None:
    there = run(optimizer, start, changes)
    back = run(optimizer, -start, [-change for change in changes])
    assert there == -back


@pytest.mark.parametrize("optimizer", ALL)
def test_every_tensor_has_moments_of_its_own(optimizer: ServerOptimizer) -> None:
    tensors = {"a": np.zeros((2, 3), np.float32), "b": np.zeros(4, np.float32)}
    change = {"a": np.ones((2, 3)), "b": np.full(4, -2.0)}
    after, moments = optimizer.apply(tensors, change, {})
    assert {name: value.dtype.name for name, value in moments.items()} == {
        f"{moment}.{name}": "float32" for moment in optimizer.moments for name in tensors
    }
    assert all(after[name].shape == value.shape for name, value in tensors.items())
    assert (after["a"] > 0).all()
    assert (after["b"] < 0).all()


def test_moments_of_another_optimizer_are_refused() -> None:
    tensors = {"w": np.zeros(2, np.float32)}
    change = {"w": np.ones(2)}
    left = FedAvgM().apply(tensors, change, {}).moments
    with pytest.raises(InvalidInputError, match="without_moments"):
        FedAdam().apply(tensors, change, left)
    with pytest.raises(InvalidInputError, match="expected none"):
        FedAvg().apply(tensors, change, left)


@pytest.mark.parametrize("optimizer", [*ALL, FedAdam(0.5, 0.1, 0.2, 0.3)])
def test_settings_come_back_from_json_values(optimizer: ServerOptimizer) -> None:
    assert optimizer_from_dict(optimizer.to_dict()) == optimizer


@pytest.mark.parametrize("found", [{}, {"name": "sgd"}, {"name": "fedavg", "momentum": 0.1}])
def test_unknown_optimizers_are_refused(found: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError, match="fedyogi"):
        optimizer_from_dict(found)


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan, math.inf, "1", None])
def test_a_learning_rate_out_of_range_is_refused(rate: Any) -> None:
    with pytest.raises(InvalidInputError, match="learning_rate"):
        FedAvg(learning_rate=rate)
    with pytest.raises(InvalidInputError, match="momentum"):
        FedAvgM(momentum=1.0)


def test_fedavg_and_fedavgm_make_the_steps_of_flowers(monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Flower's own dependencies say
        from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
        from flwr.serverapp.strategy import FedAvg as FlowerFedAvg
        from flwr.serverapp.strategy import FedAvgM as FlowerFedAvgM
        from flwr.supercore.task_identity import TaskIdentity
    for name in ("_run_id", "_task_id", "_node_id"):  # a message cannot be made without
        monkeypatch.setattr(TaskIdentity, name, 1)

    def answer(weights: NDArray[np.float32], examples: int) -> Message:
        arrays = ArrayRecord({"w": Array(weights)})
        content = RecordDict({"a": arrays, "m": MetricRecord({"num-examples": examples})})
        return Message(content, dst_node_id=0, message_type="train")

    rng = np.random.default_rng(3)
    momentum = FlowerFedAvgM(server_learning_rate=0.7, server_momentum=0.8)
    start = rng.normal(size=(3, 2)).astype(np.float32)
    momentum.current_arrays = ArrayRecord({"w": Array(start)})  # as its configure_train does
    pairs: list[tuple[FlowerFedAvg, ServerOptimizer]] = [
        (FlowerFedAvg(), FedAvg()),
        (momentum, FedAvgM(learning_rate=0.7, momentum=0.8)),
    ]
    for rival, optimizer in pairs:
        tensors, moments = {"w": start}, dict[str, NDArray[np.float32]]()
        for number in range(4):
            changes = rng.normal(size=(3, 3, 2)).astype(np.float32)
            answers = [
                answer(tensors["w"] + changes[i], weight) for i, weight in enumerate((1, 2, 5))
            ]
            theirs, _ = rival.aggregate_train(number, answers)
            assert theirs is not None
            mean = np.average(changes.astype(np.float64), axis=0, weights=(1, 2, 5))
            tensors, moments = optimizer.apply(tensors, {"w": mean}, moments)
            np.testing.assert_allclose(tensors["w"], theirs["w"].numpy(), rtol=1e-4, atol=1e-5)
