"""The loss of CCP against its closed forms and a slow twin, and what its masks leave out."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import pytest
import torch

from pocketquery.server.objectives.ccp_loss import ccp_accuracy, ccp_loss, ccp_masks


class Rows(NamedTuple):
    documents: torch.Tensor
    positions: torch.Tensor
    texts: torch.Tensor


def rows(documents: list[int], positions: list[int], texts: list[int] | None = None) -> Rows:
    own = (
        texts
        if texts is not None
        else [100 * d + p for d, p in zip(documents, positions, strict=True)]
    )
    return Rows(*(torch.tensor(v, dtype=torch.int64) for v in (documents, positions, own)))


NOTHING = rows([], [])


def partners(count: int) -> torch.Tensor:
    """Row i's only positive is row i + count, and the other way round."""
    eye = torch.eye(2 * count, dtype=torch.bool)
    return eye.roll(count, dims=1)


def slow_loss(
    vectors: torch.Tensor,
    positives: torch.Tensor,
    tau: float,
    bank: torch.Tensor,
    dropped: torch.Tensor,
    normalize: bool = True,
) -> torch.Tensor:
    """The same, pair by pair, as the equation reads."""

    def f(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        inner = a @ b / (a.norm() * b.norm()) if normalize else a @ b
        return torch.exp(inner / tau)

    columns = [*vectors, *bank]
    anchors = []
    for c in range(len(vectors)):
        own = [i for i in range(len(vectors)) if positives[c, i]]
        losses = []
        for i in own:
            below = f(vectors[c], vectors[i])
            for k, column in enumerate(columns):
                if k != c and k not in own and not dropped[c, k]:
                    below = below + f(vectors[c], column)
            losses.append(-torch.log(f(vectors[c], vectors[i]) / below))
        if losses:
            anchors.append(torch.stack(losses).mean())
    return torch.stack(anchors).mean()


@pytest.mark.parametrize(("bank", "expected"), [(0, 2.7236e-4), (8, 6.3540e-4)])
def test_orthonormal_perfect_pairs(bank: int, expected: float) -> None:
    axes = torch.eye(16, dtype=torch.float64)
    vectors = torch.cat([axes[:4], axes[:4]])
    loss = ccp_loss(vectors, partners(4), 0.1, bank=axes[4 : 4 + bank])
    assert float(loss) == pytest.approx(math.log1p((6 + bank) * math.exp(-10)), rel=1e-9)
    assert float(loss) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(("bank", "expected"), [(0, 1.94591), (8, 2.70805)])
def test_all_vectors_equal(bank: int, expected: float) -> None:
    loss = ccp_loss(torch.ones(8, 5), partners(4), 0.1, bank=torch.ones(bank, 5))
    assert float(loss) == pytest.approx(expected, abs=1e-5)


def test_two_positives_by_hand() -> None:
    # Rows 0, 1, 2 belong together, row 3 stands alone; all cosines are 0. Each anchor has one
    # negative left, so ln 2.
    vectors = torch.eye(4, dtype=torch.float64)
    positives = torch.zeros(4, 4, dtype=torch.bool)
    positives[:3, :3] = ~torch.eye(3, dtype=torch.bool)
    assert float(ccp_loss(vectors, positives, 1.0)) == pytest.approx(math.log(2))


@pytest.mark.parametrize("normalize", [True, False])
def test_the_slow_twin_agrees_and_so_do_the_gradients(normalize: bool) -> None:
    torch.manual_seed(0)
    vectors = torch.randn(8, 6, dtype=torch.float64, requires_grad=True)
    bank = torch.randn(5, 6, dtype=torch.float64)
    placed = rows([1, 1, 2, 3, 1, 1, 2, 3], [0, 2, 5, 1, 1, 9, 6, 3])
    stored = rows([1, 2, 4, 4, 1], [1, 20, 0, 1, 30])
    positives, dropped = ccp_masks(placed, stored, 4)
    assert positives.sum(dim=1).max() > 1  # several positives, and a row without
    assert (positives.sum(dim=1) == 0).any()
    options: dict[str, Any] = {"normalize": normalize}
    fast = ccp_loss(vectors, positives, 0.7, bank=bank, dropped=dropped, **options)
    slow = slow_loss(vectors, positives, 0.7, bank, dropped, **options)
    assert float(fast.detach()) == pytest.approx(float(slow.detach()), rel=1e-12)
    (one,) = torch.autograd.grad(fast, vectors)
    (other,) = torch.autograd.grad(slow, vectors)
    torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def test_the_gradient_is_that_of_the_function() -> None:
    torch.manual_seed(1)
    vectors = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    bank = torch.randn(3, 4, dtype=torch.float64)
    torch.autograd.gradcheck(
        lambda v: ccp_loss(v, partners(3), 0.5, bank=bank), vectors, raise_exception=True
    )


def test_order_and_scale_do_not_matter_and_a_missing_norm_does() -> None:
    torch.manual_seed(2)
    vectors, bank = torch.randn(8, 5), torch.randn(6, 5)
    loss = ccp_loss(vectors, partners(4), 0.1, bank=bank)
    swapped = ccp_loss(vectors.roll(4, dims=0), partners(4), 0.1, bank=bank.flip(0))
    torch.testing.assert_close(swapped, loss)
    torch.testing.assert_close(ccp_loss(3 * vectors, partners(4), 0.1, bank=7 * bank), loss)
    raw = ccp_loss(vectors, partners(4), 0.1, bank=bank, normalize=False)
    scaled = ccp_loss(3 * vectors, partners(4), 0.1, bank=3 * bank, normalize=False)
    assert not torch.isclose(raw, scaled)


def test_no_gradient_reaches_the_bank() -> None:
    vectors = torch.randn(4, 3, requires_grad=True)
    bank = torch.randn(2, 3, requires_grad=True)
    ccp_loss(vectors, partners(2), 0.1, bank=bank).backward()  # type: ignore[no-untyped-call]
    assert bank.grad is None
    assert vectors.grad is not None
    assert float(vectors.grad.abs().sum()) > 0


def test_an_anchor_without_negatives_costs_nothing_and_gives_no_nan() -> None:
    vectors = torch.randn(4, 3, requires_grad=True)
    everything = torch.ones(4, 4, dtype=torch.bool)
    loss = ccp_loss(vectors, partners(2), 0.1, dropped=everything)
    loss.backward()  # type: ignore[no-untyped-call]
    assert float(loss.detach()) == 0
    assert vectors.grad is not None
    assert torch.equal(vectors.grad, torch.zeros(4, 3))


def test_a_batch_without_positives_costs_nothing() -> None:
    none = torch.zeros(4, 4, dtype=torch.bool)
    assert float(ccp_loss(torch.randn(4, 3), none, 0.1)) == 0


def test_accuracy_counts_the_anchors_whose_positive_wins() -> None:
    vectors = torch.tensor([[1.0, 0], [0, 1], [1, 0.1], [1, 0.2]])
    # Row 1's partner (row 3) is no nearer than row 2; rows 0, 2 and 3 are all near each other.
    assert float(ccp_accuracy(vectors, partners(2))) == pytest.approx(2 / 4)
    assert float(ccp_accuracy(vectors, partners(2), bank=vectors[:1])) == pytest.approx(1 / 4)


def test_the_window_is_symmetric_without_its_centre_and_right_at_the_ends() -> None:
    places = list(range(6))
    positives, _ = ccp_masks(rows([1] * 6, places), NOTHING, 3)
    expected = [[0 < abs(a - b) <= 2 for b in places] for a in places]
    assert positives.tolist() == expected
    assert torch.equal(positives, positives.T)
    assert positives[0].nonzero().flatten().tolist() == [1, 2]  # the document's beginning
    assert positives[5].nonzero().flatten().tolist() == [3, 4]  # and its end


def test_no_window_reaches_into_another_document() -> None:
    positives, _ = ccp_masks(rows([1, 2, 1, 2], [4, 5, 5, 4]), NOTHING, 5)
    assert positives.nonzero().tolist() == [[0, 2], [1, 3], [2, 0], [3, 1]]


def test_the_bank_rows_of_the_same_document_are_left_out() -> None:
    batch = rows([1, 2, 1, 2], [0, 0, 1, 1])
    bank = rows([1, 1, 3], [2, 50, 0])  # near, far, foreign
    assert ccp_masks(batch, bank, 5)[1][0, 4:].tolist() == [True, True, False]


def test_what_the_bank_holds_of_the_same_document_does_not_change_the_loss() -> None:
    torch.manual_seed(3)
    batch, bank = rows([1, 1], [0, 1]), rows([1, 1, 3], [2, 50, 0])
    positives, dropped = ccp_masks(batch, bank, 5)
    vectors, stored = torch.randn(2, 6), torch.randn(3, 6)
    loss = ccp_loss(vectors, positives, 0.1, bank=stored, dropped=dropped)
    own = torch.cat([vectors, stored[2:]])  # the worst there could be: the anchors themselves
    torch.testing.assert_close(ccp_loss(vectors, positives, 0.1, bank=own, dropped=dropped), loss)
    foreign = torch.cat([stored[:2], vectors[:1]])
    changed = ccp_loss(vectors, positives, 0.1, bank=foreign, dropped=dropped)
    assert float(changed) > float(loss) + 0.1


def test_equal_texts_are_never_negatives() -> None:
    batch = rows([1, 2, 1, 2], [0, 0, 1, 1], texts=[7, 8, 9, 7])
    _, dropped = ccp_masks(batch, rows([5], [0], texts=[9]), 2)
    assert dropped[0, 3]
    assert dropped[3, 0]
    assert dropped[2, 4]
    assert not dropped[1, 4]
