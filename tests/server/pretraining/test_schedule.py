from __future__ import annotations

from pocketquery.server.pretraining import warmup_linear


def test_it_rises_then_falls_and_is_never_zero() -> None:
    factors = [warmup_linear(step, 100, 0.1) for step in range(100)]
    assert factors[0] == 0.1
    assert factors[9] == factors[10] == 1.0 or max(factors) == 1.0
    assert factors[:10] == sorted(factors[:10])
    assert factors[10:] == sorted(factors[10:], reverse=True)
    assert min(factors) > 0


def test_a_single_step_is_taken_at_the_full_rate() -> None:
    assert warmup_linear(0, 1) == 1.0
