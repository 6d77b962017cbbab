"""The privacy officer's page: who sees what, what it cost, what attacks find, what is kept.

One self-contained HTML file, without scripts. Its sentences are those of statements.py, its figures
come from the journal, the devices' ledgers of a simulation, and a result of the attack benchmark.
"""

from __future__ import annotations

from collections import Counter
from html import escape
from pathlib import Path

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.files import check_file_replaceable, write_atomic
from pocketquery.server.federation.privacy.records import Federation
from pocketquery.server.pages.page import page, settings_table
from pocketquery.server.private.accounting import ADVERSARIES
from pocketquery.server.private.budget import Spent, refusal, spent, total
from pocketquery.server.private.report.attacks import attacks_part
from pocketquery.server.private.report.page import (
    EXPERIMENTAL,
    bullets,
    html_table,
    marked_page,
    rounded_up,
)
from pocketquery.server.private.report.statements import (
    COLUMNS,
    NOT_PROMISED,
    NOT_REVIEWED,
    STORED,
    WHO_SEES_WHAT,
    WITHDRAWING,
    column_of,
    promises,
)

__all__ = ["privacy_page", "write_page"]

_WHO = {
    "H": "H: a server that follows the protocol and keeps what it sees",
    "M": "M: a server that deviates, device keys being enrolled by someone else",
    "R": "R: whoever gets the releases",
}
_NO_CHARGE = "nothing: rounds without noise cost no epsilon, and are bounded by none"
_DECLINED = (
    "In these rounds devices add no noise. A device at its default, "
    '<code>privacy="devices"</code>, declines them: who takes part has set '
    '<code>privacy="any"</code>.'
)
_TITLE = "pocketquery: privacy of federated rounds"
_STAGES = ("ready", "committed", "survivors", "confirmed", "revealed")  # as rounds report them


def write_page(path: Path, found: Federation) -> None:
    """Write the page of ``found`` to ``path``, in the place of such a page or of nothing.

    Raises:
        InvalidInputError: ``path`` is something else.
        MissingExtraError: as :func:`privacy_page`.
    """
    check_file_replaceable(path, "a privacy report", _check_page)
    write_atomic(path, privacy_page(found))


def privacy_page(found: Federation) -> str:
    """The page as HTML.

    Raises:
        MissingExtraError: dp-accounting is not installed, and there is noise to account for.
    """
    planned = found.planned()
    parts = [
        ("What may be said", _said(found, planned)),
        ("Who sees what", _who_sees_what(found)),
        ("The six settings that decide it", _six_settings(found)),
        ("The budget", _budget(found, planned)),
        ("How often devices took part", _participations(found)),
        ("What attacks find", attacks_part(found.attacks, found.group if found.secure else None)),
        ("What was left out, and where", _left_out(found)),
        ("What is stored, where, until when", _stored()),
        ("How a user withdraws", bullets(WITHDRAWING)),
        ("What is not promised", bullets(NOT_PROMISED)),
        ("What was not reviewed", bullets(NOT_REVIEWED)),
        ("Settings", _settings(found)),
    ]
    return marked_page(
        _TITLE,
        _lead(found),
        EXPERIMENTAL,
        _figures(found, planned),
        parts,
    )


def _check_page(path: Path) -> None:
    """Raise InvalidInputError for a file that does not begin as the page does."""
    begins = page(_TITLE, "", "").partition("</title>")[0].encode()
    with path.open("rb") as file:
        if file.read(len(begins)) != begins:
            raise InvalidInputError(f"{path} does not begin as a privacy report does")


def _lead(found: Federation) -> str:
    fleet = "" if found.devices is None else f" of {found.devices:,}"
    name = f" of the federation {found.secure.federation!r}" if found.secure else ""
    many = "1 round" if len(found.rounds) == 1 else f"{len(found.rounds)} rounds"
    return f"{many}{name}, each asking for {found.cohort:,}{fleet} devices."


def _figures(found: Federation, planned: Spent | None) -> list[tuple[str, str]]:
    secure, season = found.secure, found.season
    items = [("on" if secure else "off", "secure sums")]
    if secure:
        items.append((f"{secure.least:,}", "devices in any sum, at least"))
    if season and planned:
        items.append(
            (
                rounded_up(planned.epsilon("H", season.delta)),
                f"ε of a season at δ = {season.delta:g} against H; participations of a device "
                f"in its {season.rounds} rounds: {season.participations}",
            )
        )
        items.append((rounded_up(planned.epsilon("M", season.delta)), "the same against M"))
    else:
        items.append(("none", "noise: nothing bounds what a sum or a release tells"))
    return items


def _said(found: Federation, planned: Spent | None) -> str:
    season = found.season
    epsilon = None
    if season and planned:
        epsilon = {who: planned.epsilon(who, season.delta) for who in ADVERSARIES}
    return bullets(
        promises(
            found.secure,
            collusion=found.rules.collusion,
            least_honest=found.least_honest,
            season=season,
            epsilon=epsilon,
        )
    )


def _who_sees_what(found: Federation) -> str:
    own = {1 + place for place in column_of(found.secure)}
    note = "The column of these rounds is marked."
    if found.secure is None:
        note = (
            "The columns of these rounds are marked; TLS and node authentication are settings of "
            "the SuperLink, which this page does not see."
        )
    least = f"{found.secure.least:,}" if found.secure else "<i>least</i>"
    rows = [
        [escape(row[0]), *(cell.replace("<i>least</i>", least) for cell in row[1:])]
        for row in WHO_SEES_WHAT
    ]
    return html_table(["", *COLUMNS], rows, own) + f"<p>{note}</p>"


def _six_settings(found: Federation) -> str:
    secure, rules = found.secure, found.rules
    if secure is None:
        return (
            "<p>The rounds are plain. A device whose node-config says "
            '<code>secure="required"</code>, the default where it is enrolled, declines them.</p>'
        )
    noisy = secure.is_noisy
    least = max(rules.least, rules.least_noisy) if noisy else rules.least
    rows = [
        ["secure", "on", rules.secure, "declines a plain offer"],
        [
            "least",
            f"{secure.least:,} devices a sum",
            f"{least:,}",
            "deals no boxes to a smaller group, confirms no smaller set of survivors"
            + (", nor one under four fifths of the group" if noisy else ""),
        ],
        [
            "collusion",
            f"threshold for a group of {found.group:,}: "
            + (f"{found.least_honest} honest devices at least" if found.least_honest else "none"),
            f"{rules.collusion:.0%} of its neighbours",
            "deals no boxes under a lower threshold",
        ],
        [
            "participations",
            f"{secure.participations} in {secure.season_rounds} rounds" if noisy else "not limited",
            f"{rules.participations} a season, {rules.rest} rounds apart"
            if noisy
            else f"not limited; {rules.rest} rounds apart",
            "its own ledger, charged before anything is sent; nothing refunds",
        ],
        [
            "epsilon",
            f"{secure.epsilon:g} a season" if noisy else "none: no noise",
            f"{rules.epsilon:g} a season",
            "its own ledger; a charge that would pass it is declined" if noisy else _NO_CHARGE,
        ],
        [
            "delta",
            f"{secure.delta:g}" if noisy else "none",
            f"{rules.delta:g}",
            "its own ledger" if noisy else _NO_CHARGE,
        ],
    ]
    body = [[escape(cell) for cell in row] for row in rows]
    return (
        html_table(["setting", "the server asks", "a device's default", "the device"], body)
        + "<p>Each device's own values are in its node-config, and win; no server can loosen them."
        + (
            " The server keeps a ledger of its own, and stops at its limit.</p>"
            if noisy
            else "</p>"
        )
        + ("" if noisy else f"<p>{_DECLINED}</p>")
    )


def _budget(found: Federation, planned: Spent | None) -> str:
    if found.secure is None or (found.season is None and not found.charges):
        return "<p>No noise is added, and so there is no ε: nothing bounds what is learned.</p>"
    delta = found.secure.delta
    seasons = spent(found.charges)
    entries = [(f"season {one.season}, so far", one) for one in seasons.values()]
    if planned is not None:
        entries.append((f"season {planned.season}, when it is over", planned))
    if len(seasons) > 1:
        entries.append(("all seasons together, for a device in each", total([*seasons.values()])))
    rows = [
        [
            escape(name),
            str(one.rounds),
            str(one.participations),
            *(rounded_up(one.epsilon(who, delta)) for who in ADVERSARIES),
        ]
        for name, one in entries
    ]
    heads = ["", "rounds", "participations of a device, at most"]
    heads += [f"ε at δ = {delta:g}, {_WHO[who]}" for who in ADVERSARIES]
    return html_table(heads, rows) + f"<p>{_left(found)}</p>"


def _left(found: Federation) -> str:
    season = found.season
    if season is None:
        return "The declared settings add no noise any more."
    known = [one for one in found.charges if one.season == season.name]
    following = season.charge(max((one.round for one in found.charges), default=-1) + 1)
    reason = refusal(found.charges, season, following)
    if reason is not None:
        return f"The next round is refused: {escape(reason)}."
    over = min((one.round for one in known), default=following.round) + season.rounds
    return (
        f"Allowed: ε = {season.epsilon:g} at δ = {season.delta:g} a season and device. Left: "
        f"rounds {following.round} to {over - 1} of the season {escape(repr(season.name))}; what "
        "it costs a device that takes part as often as it may is in the table. Every figure "
        "follows from the ledger's rows; rounds that were killed, skipped or rejected count. "
        "Nothing is claimed from drawing devices at random."
    )


def _participations(found: Federation) -> str:
    counts = found.participations
    if counts is None:
        rest = found.rules.rest
        most = (
            f"The device enforces that {rest} rounds lie between two, where its owner set no other."
        )
        if found.season is not None:
            most = f"The device enforces at most {found.season.participations} a season."
        return (
            "<p>The server keeps no list of who took part in which round; each device's own ledger "
            f"does. {most}</p>"
            if found.secure
            else "<p>Nothing limits how often a device takes part in plain rounds.</p>"
        )
    largest = max(counts.values())
    rows = [
        [
            str(times),
            f"{devices:,}",
            f'<span class="bar" style="width: {100 * devices / largest:.1f}%"></span>',
        ]
        for times, devices in counts.items()
    ]
    bars = html_table(["times in the season", "devices", ""], rows)
    return f'<div class="bars">{bars}</div><p>From the devices\' own ledgers.</p>'


def _left_out(found: Federation) -> str:
    if not found.rounds:
        return "<p>No round is over.</p>"
    staged = _STAGES if any(one.stages for one in found.rounds) else ()
    rows, quarantined = [], Counter[str]()
    for one in found.rounds:
        quarantined.update(one.quarantined)
        rows.append(
            [
                *(str(value) for value in (one.round, one.asked, one.declined, one.failed)),
                *(str(one.stages.get(name, 0)) for name in staged),
                *([] if staged else [str(one.accepted)]),
                escape(", ".join(f"{reason} {count}" for reason, count in one.quarantined.items())),
                escape(one.skipped or ""),
            ]
        )
    heads = ["round", "asked", "declined", "failed", *(staged or ("in the sum",))]
    said = "Why a device declines it does not say."
    if staged:
        said += (
            " Ready devices have trained; committed ones dealt their boxes; survivors sent their "
            "masked change in time and are the sum; of these so many confirmed, and revealed "
            "shares."
        )
    reasons = [[escape(name), str(count)] for name, count in sorted(quarantined.items())]
    return (
        html_table([*heads, "quarantined", "skipped because"], rows)
        + f"<p>{said}</p>"
        + (
            f"<h3>Quarantined, by reason</h3>{html_table(['reason', 'replies'], reasons)}"
            * bool(reasons)
        )
    )


def _stored() -> str:
    return html_table(
        ["what", "where", "until"], [[escape(cell) for cell in row] for row in STORED]
    )


def _settings(found: Federation) -> str:
    options = dict(found.options)
    nested = {name: value for name, value in options.items() if isinstance(value, dict)}
    flat = {name: value for name, value in options.items() if name not in nested}
    for part in ("settings", "local", "secure"):
        flat |= nested.get(part, {})
    return settings_table({k: v for k, v in flat.items() if not isinstance(v, dict)})
