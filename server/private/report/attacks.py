"""The report's part on attacks: what the benchmark's figures say, beside the rounds' own size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from pocketquery.server.pages.page import NO_PLOTS
from pocketquery.server.private.report.page import html_table

__all__ = ["attacks_part"]

_CANDIDATES = 100
_ARMS = {
    "plain": "one change",
    "clipped_int8": "one change, clipped, in 8 bits",
    "up_only": "one change of the small adapter's kind (up alone)",
    "limit": "one change, trained at the device's limits",
    "limit_sum": "one change, trained at the device's limits on plain gradients",
    "limit_dp_z2": "the same under noise, multiplier 2: all other devices' changes beside it",
}


def attacks_part(attacks: Mapping[str, Any] | None, group: int | None) -> str:
    """HTML of a result of benchmarks/privacy_attacks.py.

    Args:
        attacks: the result; None where there is none.
        group: devices in one of the rounds' sums, to be marked; None where changes are seen alone.
    """
    if attacks is None:
        return (
            "<p>No attack figures: run <code>python benchmarks/privacy_attacks.py</code> and name "
            "its result with <code>--attacks</code>.</p>"
        )
    users = f", {attacks['users']:,} users" if isinstance(attacks.get("users"), int) else ""
    return (
        f"<p>Measured with this project's device code{escape(users)}"
        f" (encoder {escape(str(attacks.get('encoder', 'not named')))}). The attacker has the "
        "release, the settings, the index and every candidate's queries, and trains each "
        "candidate itself. It is another fleet than this one: a figure here says what is possible "
        "in rounds of such a size.</p>"
        + _identification(group, attacks.get("identification", {}))
        + _membership(attacks.get("membership", {}), attacks.get("bounds", {}))
        + _queries(attacks.get("queries", {}))
        + _inversion(attacks.get("inversion", {}))
    )


def _identification(group: int | None, arms: Mapping[str, Any]) -> str:
    points = sorted(
        (1 if name == "plain" else int(name.removeprefix("sum_")), *_values(arm))
        for name, arm in arms.items()
        if name == "plain" or name.removeprefix("sum_").isdecimal()
    )
    rows = [
        [escape(_arm(name)), _share(arm.get("top1")), _span(arm), _share(arm.get("mrr"))]
        for name, arm in arms.items()
    ]
    if not rows:
        return ""
    heads = ["the attacker sees", "right user first", "95 % interval", "mean reciprocal rank"]
    text = f"<h3>Whose change is it, of {_CANDIDATES} users?</h3>"
    if len(points) > 1:
        text += _plot(points, group)
    return text + html_table(heads, rows)


def _plot(points: Sequence[tuple[int, float, float, float]], group: int | None) -> str:
    """How often the right user is named, by the number of changes in a sum, as SVG text.

    Args:
        points: devices in the sum, the share named, and the interval's ends; ascending.
        group: of the federation, marked; None for none.
    """
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


def _membership(arms: Mapping[str, Any], bounds: Mapping[str, Any]) -> str:
    if not arms:
        return ""
    rows = []
    for name, arm in arms.items():
        bound = bounds.get(name) or bounds.get(name.removesuffix("_sum"))
        rows.append(
            [
                escape(_arm(name)),
                _share(arm.get("auc")),
                _span({"interval": arm.get("auc_interval")}),
                _share(arm.get("tpr_at_1")),
                _share(bound.get("auc")) if isinstance(bound, dict) else "none",
            ]
        )
    heads = ["the attacker sees", "AUC", "95 % interval", "true positives at 1 % false"]
    heads.append("AUC, bound for every attacker")
    return "<h3>Was this user in the round?</h3>" + html_table(heads, rows)


def _queries(arms: Mapping[str, Any]) -> str:
    """Figures are a mean over users and its interval."""
    heads = ["the attacker sees", "queries told among all candidates", "by guessing"]
    heads.append("AUC against queries on the same topics")
    rows = [
        [
            escape(_arm(name)),
            _mean(arm.get("exact")),
            _share(arm.get("exact_by_chance")),
            _mean(arm.get("auc_same_topic")),
        ]
        for name, arm in arms.items()
        if isinstance(arm, dict)
    ]
    return f"<h3>Which queries did this user ask?</h3>{html_table(heads, rows)}" if rows else ""


def _inversion(arms: Mapping[str, Any]) -> str:
    rows = [
        [
            escape(_trained(name)),
            _share(arm.get("token_f1")),
            _share(arm.get("baseline_f1")),
        ]
        for name, arm in arms.items()
    ]
    if not rows:
        return ""
    heads = ["one device's change", "token F1", "F1 of the most frequent words"]
    return "<h3>Which words were asked?</h3>" + html_table(heads, rows)


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


def _values(arm: Mapping[str, Any]) -> tuple[float, float, float]:
    low, high = arm.get("interval") or (arm["top1"], arm["top1"])
    return float(arm["top1"]), float(low), float(high)


def _share(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, int | float) else "not measured"


def _span(arm: Mapping[str, Any]) -> str:
    found = arm.get("interval")
    return f"{found[0]:.3f}–{found[1]:.3f}" if found else ""


def _mean(found: object) -> str:
    if not isinstance(found, list) or len(found) != 3:
        return "not measured"
    mean, low, high = found
    return f"{mean:.3f} ({low:.3f}–{high:.3f})"


def _trained(name: str) -> str:
    """What an inversion was given, in words."""
    steps, _, part = name.rpartition("_")
    whole = {"full": "whole adapter", "up": "up alone"}
    if part not in whole:
        return name.replace("_", " ")
    return f"{_ARMS.get(steps, steps.replace('_', ' '))}; {whole[part]}"
