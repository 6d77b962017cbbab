"""The contrast of word distributions: known values, the naive twin, gradients, the range."""

from __future__ import annotations

import math

import pytest
import torch

from pocketquery.server.objectives.shared.js_contrast import (
    js_contrast,
    log_distribution,
    pairwise_js,
    partner_contrast,
)


def logits(rows: int, pieces: int, spread: float = 2.0, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return spread * torch.randn(rows, pieces, generator=generator) - 3


def naive_js(log_p: torch.Tensor) -> torch.Tensor:
    """The definition, with all pairs and pieces in one tensor."""
    p, q = log_p.unsqueeze(1), log_p.unsqueeze(0)
    middle = torch.logaddexp(p, q) - math.log(2)  # (n, n, pieces)
    return (p.exp() * (p - middle) + q.exp() * (q - middle)).sum(dim=2) / 2


def js_of(p: torch.Tensor, q: torch.Tensor) -> float:
    found = pairwise_js(torch.stack([p, q]).clamp(min=1e-30).log())
    assert torch.equal(found, found.T)
    assert torch.equal(found.diagonal(), torch.zeros(2))
    return float(found[0, 1])


@pytest.mark.parametrize(
    ("p", "q", "expected"),
    [
        ((0.7, 0.2, 0.1), (0.7, 0.2, 0.1), 0.0),
        ((1.0, 0.0, 0.0), (0.0, 0.4, 0.6), 0.693147),
        ((1.0, 0.0), (0.5, 0.5), 0.215762),
        ((0.7, 0.2, 0.1), (0.1, 0.2, 0.7), 0.253102),
    ],
)
def test_divergences_of_small_distributions(
    p: tuple[float, ...], q: tuple[float, ...], expected: float
) -> None:
    assert js_of(torch.tensor(p), torch.tensor(q)) == pytest.approx(expected, abs=1e-6)
    assert js_of(torch.tensor(q), torch.tensor(p)) == pytest.approx(expected, abs=1e-6)


def test_the_order_of_the_vocabulary_does_not_matter() -> None:
    z = logits(6, 40)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(1))
    one, other = (pairwise_js(log_distribution(x)) for x in (z, z[:, order]))
    torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


@pytest.mark.parametrize("elements", [1, 7, 60, 500, 100_000, None])
def test_blocks_of_any_size_agree_with_the_definition(elements: int | None) -> None:
    z = [logits(10, 53).requires_grad_() for _ in range(2)]
    outer = torch.randn(10, 10, generator=torch.Generator().manual_seed(2))  # not symmetric
    blockwise = pairwise_js(log_distribution(z[0]), elements=elements)
    naive = naive_js(log_distribution(z[1]))
    (blockwise * outer).sum().backward()  # type: ignore[no-untyped-call]
    (naive * outer).sum().backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(blockwise, naive, rtol=0, atol=1e-6)
    torch.testing.assert_close(z[0].grad, z[1].grad, rtol=0, atol=1e-6)


@pytest.mark.parametrize("elements", [13, 400])
def test_the_gradient_is_the_numerical_one(elements: int) -> None:
    z = logits(5, 11).double().requires_grad_()
    log_p = log_distribution(z).detach().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: pairwise_js(x, elements=elements), (log_p,))
    assert torch.autograd.gradcheck(
        lambda x: js_contrast(pairwise_js(log_distribution(x))),
        (logits(6, 9).double().requires_grad_(),),
    )


def test_nearly_uniform_distributions_lose_no_digits() -> None:
    z = 0.02 * torch.randn(8, 30_000, generator=torch.Generator().manual_seed(0))
    exact = naive_js(log_distribution(z.double()))
    found = pairwise_js(log_distribution(z))
    assert 1e-5 < float(exact[0, 1]) < 1e-4  # about 2e-5: no signal yet
    torch.testing.assert_close(found.double(), exact, rtol=1e-3, atol=1e-9)


def test_gradients_stay_finite_at_extreme_logits() -> None:
    z = torch.full((4, 6), -200.0)
    z[0, 0] = z[1, 1] = 200.0
    z.requires_grad_()
    js_contrast(pairwise_js(log_distribution(z))).backward()  # type: ignore[no-untyped-call]
    assert z.grad is not None
    assert torch.isfinite(z.grad).all()
    plain = z.detach().clone().requires_grad_()
    p = plain.sigmoid() / plain.sigmoid().sum(dim=1, keepdim=True)
    assert not torch.isfinite(p).all()  # why it is done with logarithms


def test_equal_distributions_are_at_chance_and_separated_ones_at_the_floor() -> None:
    same = pairwise_js(log_distribution(torch.zeros(16, 20)))
    assert float(js_contrast(same)) == pytest.approx(2.708050, abs=1e-5)  # ln 15
    apart = torch.full((16, 20), -60.0)
    apart[torch.arange(16), torch.arange(16) % 8] = 60.0
    floor = js_contrast(pairwise_js(log_distribution(apart)))
    assert float(floor) == pytest.approx(2.079442, abs=1e-5)  # ln 8
    wrong = torch.zeros(16, 16)  # every partner disjoint, every negative identical
    wrong[torch.arange(16), torch.arange(16).roll(8)] = math.log(2)
    assert float(js_contrast(wrong)) == pytest.approx(math.log(29), abs=1e-5)  # ln(4m - 3)


def test_common_words_fall_and_distinctive_ones_rise() -> None:
    z = torch.full((4, 6), -5.0)
    z[:, :2] = 3.0
    z[[0, 2], 2] = 3.0
    z[[1, 3], 3] = 3.0
    z.requires_grad_()
    loss = js_contrast(pairwise_js(log_distribution(z)))
    loss.backward()  # type: ignore[no-untyped-call]
    assert float(loss.detach()) == pytest.approx(0.95918, abs=1e-5)
    assert z.grad is not None
    expected = torch.tensor([5.3e-4, 5.3e-4, -1.14e-3, 1.60e-3, 7.7e-5, 7.7e-5])
    torch.testing.assert_close(z.grad[0], expected, rtol=0.01, atol=0)


def test_a_denominator_leaves_out_the_anchor_alone() -> None:
    scores = torch.zeros(16, 16, requires_grad=True)
    partner_contrast(scores).backward()  # type: ignore[no-untyped-call]
    assert scores.grad is not None
    weights = 16 * scores.grad + torch.eye(16).roll(8, 1)  # the softmax over each denominator
    assert ((weights.abs() > 1e-6).sum(dim=1) == 15).all()  # 2m - 1 terms
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(16))
    assert torch.equal(weights.diagonal(), torch.zeros(16))


def test_the_order_of_texts_and_of_views_does_not_matter() -> None:
    js = pairwise_js(log_distribution(logits(10, 30)))
    order = torch.tensor([3, 0, 4, 1, 2])
    for rows in (torch.cat([order, order + 5]), torch.arange(10).roll(5)):
        shuffled = js[rows][:, rows]
        torch.testing.assert_close(js_contrast(shuffled), js_contrast(js))
    parted = torch.tensor([1, 0, 2, 3, 4, 5, 6, 7, 8, 9])  # two texts have changed partners
    assert abs(float(js_contrast(js[parted][:, parted]) - js_contrast(js))) > 1e-4


def test_equal_texts_are_no_negatives_and_the_partner_is_never_dropped() -> None:
    js = pairwise_js(log_distribution(logits(6, 30)))
    same = torch.eye(3, dtype=torch.bool)
    same[0, 1] = same[1, 0] = True
    loss = js_contrast(js, dropped=same.repeat(2, 2))
    rows = []
    for i in range(6):
        others = [k for k in range(6) if k % 3 == (i + 3) % 3 or not same[i % 3, k % 3]]
        terms = [math.exp(-float(js[i, k])) for k in others if k != i]
        rows.append(float(js[i, (i + 3) % 6]) + math.log(sum(terms)))
    assert float(loss) == pytest.approx(sum(rows) / 6, abs=1e-6)
    everything = torch.ones(6, 6, dtype=torch.bool)
    assert float(js_contrast(js, dropped=everything)) == 0


def test_half_precision_around_it_changes_nothing() -> None:
    z = logits(6, 300)
    plain = pairwise_js(log_distribution(z))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = pairwise_js(log_distribution(z))
    assert torch.equal(plain, inside)
