"""The server's privacy budget: a season declared beforehand, a row a round, and a hard stop.

A round is charged in the transaction that opens the stage in which devices send their masked
changes. Nothing gives a charge back: a round that was killed, skipped or rejected stays in the
ledger. Epsilon is never stored; it is computed from the rows each time, so that no kill and no edit
of a number can make it smaller than what was sent.

A row has the rho (zCDP) of its sum, and a season costs its most expensive rounds, as many as a
device may take part in.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Literal, get_args

from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError
from pocketquery.sdk.settings.declaration import Settings
from pocketquery.sdk.validation import check, number, whole
from pocketquery.server.private.accounting import Adversary, epsilon_of_zcdp, rho_of

__all__ = [
    "TABLE",
    "Charge",
    "ChargeState",
    "Season",
    "Spent",
    "charge",
    "create",
    "refusal",
    "rows",
    "set_state",
    "spent",
]

ChargeState = Literal["charged", "unmasked", "released", "rejected", "skipped"]

TABLE = (
    "CREATE TABLE privacy_ledger (round INTEGER PRIMARY KEY, season TEXT NOT NULL,"
    " noise_multiplier REAL NOT NULL, participations INTEGER NOT NULL,"
    " season_rounds INTEGER NOT NULL, rho REAL NOT NULL,"
    " counted_on INTEGER NOT NULL, least_honest INTEGER NOT NULL, state TEXT NOT NULL)"
)


@dataclass(frozen=True)
class Charge(Settings):
    """One row of the ledger: what one round cost.

    Raises:
        InvalidInputError: a value out of its range, which might count as less than it cost.
    """

    round: Annotated[int, whole(0), "its number"]
    season: Annotated[str, "the name of its season"]
    noise_multiplier: Annotated[float, number(above=0), "z"]
    participations: Annotated[int, whole(), "of a device in the season, at most"]
    season_rounds: Annotated[int, whole(), "of the season"]
    rho: Annotated[
        float, number(above=0), "of the round's sum (zCDP), against an honest-but-curious server"
    ]
    counted_on: Annotated[
        int,
        whole(),
        "how many devices' noise a device lets a server count on, at most, whatever that says "
        "of its group: each adds at least its share of so many",
    ]
    least_honest: Annotated[
        int,
        whole(),
        "how many honest devices there are at least in a sum that a deviating server can learn",
    ]
    state: Annotated[ChargeState, "what became of the round; all cost alike"] = "charged"

    def cost(self, adversary: Adversary) -> float:
        """Rho of the round against ``adversary``."""
        if adversary == "M":
            return self.rho * max(1.0, self.counted_on / self.least_honest)
        return self.rho


@dataclass(frozen=True)
class Season(Settings):
    """What is declared before a season's first round and fixed until its last.

    Raises:
        InvalidInputError: a value out of its range.
    """

    name: Annotated[str, "told to devices, whose own ledgers count by it"]
    rounds: Annotated[
        int, whole(), "at most; stopping early is allowed, going on is a new season"
    ] = 10
    participations: Annotated[int, whole(), "of a device, at most"] = 1
    noise_multiplier: Annotated[float, number(above=0), "z"] = 2.4
    epsilon: Annotated[float, number(above=0), "that the season may cost a device"] = 4.0
    delta: Annotated[float, number(above=0, below=1), "of that epsilon"] = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        check("participations", self.participations, whole(1, self.rounds))

    def charge(
        self, number: int, *, counted_on: int = 1, least_honest: int = 1, rho: float | None = None
    ) -> Charge:
        """The row of round ``number``; ``rho`` of the noise as it is made, else the ideal one."""
        return Charge(
            round=number,
            season=self.name,
            noise_multiplier=self.noise_multiplier,
            participations=self.participations,
            season_rounds=self.rounds,
            rho=rho_of(self.noise_multiplier) if rho is None else rho,
            counted_on=counted_on,
            least_honest=least_honest,
        )


@dataclass(frozen=True)
class Spent:
    """What a season has cost, or several together.

    Attributes:
        season: its name; names joined where they are several.
        rounds: charged ones.
        participations: of a device, at most.
        noise_multiplier: the smallest.
        rho: the largest a device can have spent, by adversary.
    """

    season: str
    rounds: int
    participations: int
    noise_multiplier: float
    rho: dict[Adversary, float]

    def epsilon(self, adversary: Adversary, delta: float) -> float:
        """Of (epsilon, delta), against ``adversary``.

        Raises:
            MissingExtraError: dp-accounting is not installed.
        """
        return epsilon_of_zcdp(self.rho[adversary], delta)


def create(connection: sqlite3.Connection) -> None:
    """Make the ledger's table; to be called in a transaction."""
    connection.execute(TABLE)


def charge(connection: sqlite3.Connection, row: Charge) -> None:
    """Write ``row``; to be called in the transaction that opens the stage it pays for.

    The same row again, of a round that was killed and goes on, is charged once.

    Raises:
        InvalidInputError: the round was charged otherwise.
    """
    there = [one for one in rows(connection) if one.round == row.round]
    if not there:
        names = ", ".join(_COLUMNS)
        marks = ", ".join("?" for _ in _COLUMNS)
        values = [getattr(row, name) for name in _COLUMNS]
        connection.execute(f"INSERT INTO privacy_ledger ({names}) VALUES ({marks})", values)
    elif any(getattr(there[0], name) != getattr(row, name) for name in _COLUMNS[:-1]):
        raise InvalidInputError(
            f"round {row.round} is in the ledger as {there[0]}, found {row}; a round that was "
            "charged goes on as it was begun"
        )


def set_state(connection: sqlite3.Connection, number: int, state: ChargeState) -> None:
    """Note what became of a round; its cost stays. To be called in a transaction."""
    connection.execute("UPDATE privacy_ledger SET state = ? WHERE round = ?", (state, number))


def rows(connection: sqlite3.Connection) -> list[Charge]:
    """All rows, in order of their rounds.

    Raises:
        CorruptArtifactError: a row is none of ours.
    """
    query = f"SELECT {', '.join(_COLUMNS)} FROM privacy_ledger ORDER BY round"
    try:
        return [Charge(*row) for row in connection.execute(query)]
    except InvalidInputError as error:
        raise CorruptArtifactError(
            f"the privacy ledger holds a damaged row ({error}); restore the file from a backup"
        ) from error


def spent(charges: Sequence[Charge]) -> dict[str, Spent]:
    """What each season has cost the device that took part where it was dearest, by name."""
    by_season: dict[str, list[Charge]] = {}
    for one in charges:
        by_season.setdefault(one.season, []).append(one)
    return {name: _spent(name, charged) for name, charged in by_season.items()}


def refusal(charges: Sequence[Charge], season: Season, row: Charge) -> str | None:
    """Why the round of ``row`` may not be begun in ``season``; None where it may.

    Args:
        charges: the ledger as it stands.
        season: as it is declared now.
        row: what the round would be charged.

    Raises:
        MissingExtraError: dp-accounting is not installed.
    """
    known = [one for one in charges if one.season == season.name]
    others = [one for one in known if one.round != row.round]
    if differing := [one for one in known if _terms(one) != _terms(row)]:
        return (
            f"season {season.name!r} was begun with {_in_words(differing[0])}, found "
            f"{_in_words(row)}; a season is fixed before its first round: name a new one"
        )
    last = min((one.round for one in known), default=row.round) + season.rounds
    if row.round >= last or len(others) >= season.rounds:
        return (
            f"season {season.name!r} has {season.rounds} rounds and is over; name a new season, "
            "which devices must allow"
        )
    after = _spent(season.name, [*others, row]).epsilon("H", season.delta)
    if after > season.epsilon:
        return (
            f"round {row.round} would bring season {season.name!r} to epsilon {after:.3f} at delta "
            f"{season.delta:g}, above the {season.epsilon:g} allowed; stop here, or begin a new "
            "season with more noise or fewer participations"
        )
    return None


_COLUMNS = tuple(one.name for one in fields(Charge))


def _spent(name: str, charges: Sequence[Charge]) -> Spent:
    participations = max(one.participations for one in charges)
    rho: dict[Adversary, float] = {}
    for adversary in get_args(Adversary):
        costs = sorted((one.cost(adversary) for one in charges), reverse=True)
        rho[adversary] = sum(costs[:participations])
    return Spent(
        season=name,
        rounds=len(charges),
        participations=participations,
        noise_multiplier=min(one.noise_multiplier for one in charges),
        rho=rho,
    )


def _terms(row: Charge) -> tuple[object, ...]:
    return (row.noise_multiplier, row.participations, row.season_rounds)


def _in_words(row: Charge) -> str:
    return (
        f"noise multiplier {row.noise_multiplier:g}, {row.participations} participations in "
        f"{row.season_rounds} rounds"
    )
