"""The privacy officer's page: who sees what, what it cost, what attacks find, what is stored.

One self-contained HTML file, without scripts. Its text is in report.html; its figures come from the
journal, the devices' ledgers of a simulation, and a result of the attack benchmark.
"""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any, get_args

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.files import check_file_replaceable, write_atomic
from pocketquery.server.pages.page import page, settings_table
from pocketquery.server.private.accounting import Adversary
from pocketquery.server.private.budget import Spent, refusal, spent
from pocketquery_privacy import EXPERIMENTAL
from pocketquery_privacy.attacks import attack_tables
from pocketquery_privacy.federation import Federation, total

__all__ = ["privacy_page", "write_page"]

_TITLE = "pocketquery: privacy of federated rounds"
_STAGES = ["ready", "committed", "survivors", "confirmed", "revealed"]  # as rounds report them
_STYLE = """
.banner { border-left: .3rem solid #D55E00; background: #fdf1e9; padding: .6rem 1rem }
.own { background: #e8f1f8 } th.own { border-top: .2rem solid #0072B2 }
td { vertical-align: top } .bars td:last-child { width: 60% }
.bar { background: #0072B2; height: .8rem; display: inline-block; vertical-align: middle }
"""


def write_page(path: Path, federation: Federation) -> None:
    """Write the page of ``federation`` to ``path``, in the place of such a page or of nothing.

    Raises:
        InvalidInputError: ``path`` is something else.
        MissingExtraError: as :func:`privacy_page`.
    """
    check_file_replaceable(path, "a privacy report", _check_page)
    write_atomic(path, privacy_page(federation))


def privacy_page(federation: Federation) -> str:
    """The page as HTML.

    Raises:
        MissingExtraError: dp-accounting is not installed, and there is noise.
    """
    templates = Environment(
        loader=PackageLoader("pocketquery_privacy", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    secure, season, planned = federation.secure, federation.season, federation.planned()

    def epsilon(cost: Spent, adversary: Adversary) -> str:
        assert secure is not None
        return _rounded_up(cost.epsilon(adversary, secure.delta))

    attacks = [
        {**one, "plot": Markup(one["plot"])}  # matplotlib's own SVG
        for one in attack_tables(federation.attacks or {}, federation.group if secure else None)
    ]
    text = templates.get_template("report.html").render(
        f=federation,
        secure=secure,
        rules=federation.rules,
        season=season,
        planned=planned,
        experimental=EXPERIMENTAL,
        epsilon=epsilon,
        g="{:g}".format,
        repr=repr,
        attacks=attacks,
        settings=Markup(settings_table(_settings(federation))),
        budget=[
            [
                name,
                one.rounds,
                one.participations,
                *(epsilon(one, who) for who in get_args(Adversary)),
            ]
            for name, one in _costs(federation, planned)
        ],
        **_next_round(federation),
        **_rounds(federation),
    )
    return page(_TITLE, _lead(federation), text, style=_STYLE)


def _check_page(path: Path) -> None:
    """Raise InvalidInputError for a file that does not begin as the page does."""
    begins = page(_TITLE, "", "").partition("</title>")[0].encode()
    with path.open("rb") as file:
        if file.read(len(begins)) != begins:
            raise InvalidInputError(f"{path} does not begin as a privacy report does")


def _lead(federation: Federation) -> str:
    fleet = "" if federation.devices is None else f" of {federation.devices:,}"
    name = f" of the federation {federation.secure.federation!r}" if federation.secure else ""
    count = len(federation.rounds)
    rounds = "1 round" if count == 1 else f"{count} rounds"
    return f"{rounds}{name}, each asking for {federation.cohort:,}{fleet} devices."


def _costs(federation: Federation, planned: Spent | None) -> list[tuple[str, Spent]]:
    """What each season has cost, what the declared one will, and all of them together."""
    if federation.secure is None:
        return []
    seasons = spent(federation.charges)
    costs = [(f"season {one.season}, so far", one) for one in seasons.values()]
    if planned is not None:
        costs.append((f"season {planned.season}, when it is over", planned))
    if len(seasons) > 1:
        costs.append(("all seasons together, for a device in each", total([*seasons.values()])))
    return costs


def _next_round(federation: Federation) -> dict[str, Any]:
    """Whether the season has room for another round, and for which."""
    charges, season = federation.charges, federation.season
    if season is None:
        return {}
    following = season.charge(max((one.round for one in charges), default=-1) + 1)
    begun = min((one.round for one in charges if one.season == season.name), default=None)
    first = following.round if begun is None else begun
    return {
        "refusal": refusal(charges, season, following),
        "following": following.round,
        "last": first + season.rounds - 1,
    }


def _rounds(federation: Federation) -> dict[str, Any]:
    """A row a round, and the replies that were left out by reason."""
    stages = _STAGES if any(one.stages for one in federation.rounds) else []
    rows: list[list[object]] = []
    quarantined = Counter[str]()
    for one in federation.rounds:
        quarantined.update(one.quarantined)
        counts = [one.stages.get(name, 0) for name in stages] or [one.accepted]
        reasons = ", ".join(f"{reason} {count}" for reason, count in one.quarantined.items())
        row = [one.round, one.asked, one.declined, one.failed, *counts, reasons]
        rows.append([*row, one.skipped or ""])
    return {"stages": stages, "rounds": rows, "quarantined": sorted(quarantined.items())}


def _settings(federation: Federation) -> dict[str, object]:
    options = dict(federation.options)
    flat = {name: value for name, value in options.items() if not isinstance(value, dict)}
    for part in ("settings", "local", "secure"):
        flat |= options.get(part) or {}
    return {name: value for name, value in flat.items() if not isinstance(value, dict)}


def _rounded_up(epsilon: float) -> str:
    """In two digits, to the safe side."""
    return "no bound" if math.isinf(epsilon) else f"{math.ceil(epsilon * 100 - 1e-9) / 100:.2f}"
