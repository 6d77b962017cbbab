"""The page's figures on attacks: those of the benchmark, beside the rounds' own size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pocketquery.server.pages.page import NO_PLOTS

__all__ = ["attack_tables"]

_CANDIDATES = 100
_SEEN_FIELD = "the attacker sees"
_ARMS = {
    "plain": "one change",
    "clipped_int8": "one change, clipped, in 8 bits",
    "up_only": "one change of the small adapter's kind (up alone)",
    "limit": "one change, trained at the device's limits",
    "limit_sum": "one change, trained at the device's limits on plain gradients",
    "limit_dp_z2": "the same under noise, multiplier 2: all other devices' changes beside it",
}


def attack_tables(attacks: Mapping[str, Any], group: int | None) -> list[dict[str, Any]]:
    """A result of benchmarks/privacy_attacks.py by attack: ``question``, ``heads`` and ``rows`` of
    a table, and ``plot``, an SVG or nothing.

    Args:
        attacks: the result; an empty one gives no tables.
        group: devices in one of the rounds' sums, to be marked; None where changes are seen alone.
    """
    tables = []
    for kind, question, columns in _TABLES:
        arms = {k: arm for k, arm in attacks.get(kind, {}).items() if isinstance(arm, dict)}
        if kind == "membership":
            bounds = attacks.get("bounds", {})
            arms = {name: arm | {"bound": _bound(bounds, name)} for name, arm in arms.items()}
        in_words, first = (
            (_trained, "one device's change") if kind == "inversion" else (_arm, _SEEN_FIELD)
        )
        rows = [
            [in_words(name), *(shown(arm.get(figure)) for _, figure, shown in columns)]
            for name, arm in arms.items()
        ]
        if rows:
            heads = [first, *(head for head, _, _ in columns)]
            plot = _plot(arms, group) if kind == "identification" else ""
            tables.append({"question": question, "heads": heads, "rows": rows, "plot": plot})
    return tables


def _plot(arms: Mapping[str, Any], group: int | None) -> str:
    """How often the right user is named, by the number of changes in a sum, as SVG text."""
    points = sorted(
        (1 if name == "plain" else int(name.removeprefix("sum_")), *_values(arm))
        for name, arm in arms.items()
        if name == "plain" or name.removeprefix("sum_").isdecimal()
    )
    if len(points) < 2:
        return ""
    try:
        from pocketquery.server.pages.svg import BLUE, GREY, VERMILION, new_figure, svg, tidy
    except ImportError:  # no extra of a server brings matplotlib
        return NO_PLOTS
    figure = new_figure(3.2)
    axes = figure.subplots()
    sizes, values, low, high = (list(column) for column in zip(*points, strict=True))
    errors = [
        [max(0.0, value - end) for value, end in zip(values, low, strict=True)],
        [max(0.0, end - value) for value, end in zip(values, high, strict=True)],
    ]
    axes.errorbar(sizes, values, yerr=errors, fmt="o-", color=BLUE, capsize=2, label="measured")
    axes.axhline(1 / _CANDIDATES, color=GREY, linestyle=":", label="guessing")
    if group is not None:
        label = f"these rounds: {group:,}"
        axes.axvline(group, color=VERMILION, linestyle="--", label=label)
    axes.set_xscale("log")
    ticks = [10**power for power in range(5) if 10**power <= max(sizes)]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.set_ylim(0, 1.04)
    axes.set_xlabel("devices in a sum, without noise")
    axes.set_ylabel("right user named")
    axes.legend(frameon=False, loc="upper center")
    tidy(axes)
    return svg(figure)


def _values(arm: Mapping[str, Any]) -> tuple[float, float, float]:
    low, high = arm.get("interval") or (arm["top1"], arm["top1"])
    return float(arm["top1"]), float(low), float(high)


def _arm(name: str) -> str:
    """An arm of the benchmark in words."""
    if name in _ARMS:
        return _ARMS[name]
    kind, _, rest = name.partition("_")
    if kind == "sum" and rest.isdecimal():
        return f"sum of {int(rest):,}"
    if kind == "dp":
        noise, _, what = rest.removeprefix("z").partition("_")
        seen = "a sum of 1,000" if what else "all other devices' changes beside it"
        return f"noise, multiplier {noise}: {seen}"
    return name.replace("_", " ")


def _trained(name: str) -> str:
    """What an inversion was given, in words."""
    steps, _, part = name.rpartition("_")
    parts = {"full": "whole adapter", "up": "up alone"}
    if part not in parts:
        return name.replace("_", " ")
    return f"{_ARMS.get(steps, steps.replace('_', ' '))}; {parts[part]}"


def _bound(bounds: Mapping[str, Any], name: str) -> object:
    bound = bounds.get(name) or bounds.get(name.removesuffix("_sum"))
    return bound.get("auc") if isinstance(bound, dict) else "none"


def _share(value: object) -> str:
    if isinstance(value, str):
        return value
    return f"{value:.3f}" if isinstance(value, int | float) else "not measured"


def _span(interval: Any) -> str:
    return f"{interval[0]:.3f}–{interval[1]:.3f}" if interval else ""


def _mean(value: object) -> str:
    """A mean over users, and its interval."""
    if not isinstance(value, list) or len(value) != 3:
        return "not measured"
    mean, low, high = value
    return f"{mean:.3f} ({low:.3f}–{high:.3f})"


# Of each attack: its key in the result, the question it answers, and a column's head, key and
# function that shows it.
_TABLES = (
    (
        "identification",
        f"Whose change is it, of {_CANDIDATES} users?",
        (
            ("right user first", "top1", _share),
            ("95 % interval", "interval", _span),
            ("mean reciprocal rank", "mrr", _share),
        ),
    ),
    (
        "membership",
        "Was this user in the round?",
        (
            ("AUC", "auc", _share),
            ("95 % interval", "auc_interval", _span),
            ("true positives at 1 % false", "tpr_at_1", _share),
            ("AUC, bound for every attacker", "bound", _share),
        ),
    ),
    (
        "queries",
        "Which queries did this user ask?",
        (
            ("queries told among all candidates", "exact", _mean),
            ("by guessing", "exact_by_chance", _share),
            ("AUC against queries on the same topics", "auc_same_topic", _mean),
        ),
    ),
    (
        "inversion",
        "Which words were asked?",
        (
            ("token F1", "token_f1", _share),
            ("F1 of the most frequent words", "baseline_f1", _share),
        ),
    ),
)
