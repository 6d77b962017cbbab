"""Which rows a vector depends on, in every mode of the head's batch norm."""

from __future__ import annotations

import pytest
import torch

from pocketquery.server.objectives.shared.asymmetric_norm import (
    AsymmetricNorm,
    NormMode,
    ProjectionHead,
)

MODES: tuple[NormMode, ...] = ("asym", "vanilla", "none")


def head_of(mode: NormMode, seed: int = 0) -> ProjectionHead:
    torch.manual_seed(seed)
    head = ProjectionHead(6, mode)
    for _ in range(40):
        head(torch.randn(32, 6), batch_statistics=True, update=True)
    return head


def depends_on_others(head: ProjectionHead, batch_side: int) -> tuple[bool, bool]:
    """Whether row 0 of either side changes when row 1 of that side does."""
    torch.manual_seed(1)
    first, second = torch.randn(5, 6), torch.randn(5, 6)
    other_first, other_second = first.clone(), second.clone()
    other_first[1] += 3
    other_second[1] -= 3
    before = head.sides(first, second, batch_side, update=False)
    after_first = head.sides(other_first, second, batch_side, update=False)
    after_second = head.sides(first, other_second, batch_side, update=False)
    return (
        not torch.equal(before[0][0], after_first[0][0]),
        not torch.equal(before[1][0], after_second[1][0]),
    )


def test_batch_statistics_give_zero_mean_and_unit_variance() -> None:
    norm = AsymmetricNorm(3)
    x = 5 * torch.randn(200, 3) + 2
    y = norm(x, batch_statistics=True, update=True)
    torch.testing.assert_close(y.mean(dim=0), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(y.var(dim=0, unbiased=False), torch.ones(3), atol=1e-4, rtol=0)
    torch.testing.assert_close(norm.running_mean, 0.1 * x.mean(dim=0))
    torch.testing.assert_close(norm.running_var, 0.9 + 0.1 * x.var(dim=0))


def test_running_statistics_make_a_row_independent_of_its_company() -> None:
    norm = AsymmetricNorm(3)
    norm(torch.randn(50, 3) + 1, batch_statistics=True, update=True)
    x = torch.randn(4, 3)
    alone = norm(x[:1], batch_statistics=False, update=False)
    torch.testing.assert_close(norm(x, batch_statistics=False, update=False)[:1], alone)
    by_hand = (x[:1] - norm.running_mean) / (norm.running_var + 1e-5).sqrt()
    torch.testing.assert_close(alone, by_hand)


@pytest.mark.parametrize("batch_side", [0, 1])
def test_in_the_asymmetric_mode_one_side_depends_on_its_company(batch_side: int) -> None:
    assert depends_on_others(head_of("asym"), batch_side) == (batch_side == 0, batch_side == 1)


def test_in_the_vanilla_mode_both_do_and_without_norm_none() -> None:
    assert depends_on_others(head_of("vanilla"), 0) == (True, True)
    assert depends_on_others(head_of("none"), 0) == (False, False)


def test_only_vanilla_shares_statistics_between_the_sides() -> None:
    """The leak that the asymmetry closes: a centre's vector shows which contexts it came with."""
    torch.manual_seed(2)
    first, second = torch.randn(4, 6), torch.randn(4, 6)
    shows = {}
    for mode in MODES:
        head = head_of(mode)
        one = head.sides(first, second, 0, update=False)[0]
        other = head.sides(first, second + 1, 0, update=False)[0]
        shows[mode] = not torch.equal(one, other)
    assert shows == {"asym": False, "vanilla": True, "none": False}


def test_the_running_side_sees_the_statistics_its_batch_side_has_just_updated() -> None:
    head = head_of("asym")
    assert head.norm is not None
    first, second = torch.randn(8, 6) + 9, torch.randn(8, 6)
    before = head.norm.running_mean.clone()
    _, contexts = head.sides(first, second, 0, update=True)
    assert not torch.equal(head.norm.running_mean, before)
    torch.testing.assert_close(contexts, head(second, batch_statistics=False))


@pytest.mark.parametrize("mode", MODES)
def test_both_sides_get_gradient(mode: NormMode) -> None:
    head = head_of(mode)
    first = torch.randn(4, 6, requires_grad=True)
    second = torch.randn(4, 6, requires_grad=True)
    one, other = head.sides(first, second, 1, update=True)
    (one[:, 0].square().sum() + other[:, 1].square().sum()).backward()  # type: ignore[no-untyped-call]
    for side in (first, second):
        assert side.grad is not None
        assert float(side.grad.abs().sum()) > 0


def test_train_and_eval_from_outside_change_nothing() -> None:
    head = head_of("asym")
    first, second = torch.randn(4, 6), torch.randn(4, 6)
    found = [head.train(on).sides(first, second, 0, update=False)[0] for on in (True, False)]
    assert torch.equal(found[0], found[1])
    head.eval()
    before = head.norm.running_mean.clone() if head.norm else None
    head.sides(first, second, 0, update=True)
    assert head.norm is not None
    assert before is not None
    assert not torch.equal(before, head.norm.running_mean)


def test_measuring_leaves_the_running_statistics_alone() -> None:
    for mode in MODES[:2]:
        head = head_of(mode)
        assert head.norm is not None
        before = head.norm.running_mean.clone(), head.norm.running_var.clone()
        head.sides(torch.randn(4, 6), torch.randn(4, 6), 0, update=False)
        assert torch.equal(before[0], head.norm.running_mean)
        assert torch.equal(before[1], head.norm.running_var)
