"""What the officer's page is made of: a federation's folder, its settings, and attack figures."""

from __future__ import annotations

import json
import math
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pocketquery.client.private.ledger import Ledger
from pocketquery.client.private.rules import DeviceRules
from pocketquery.sdk.errors import (
    ArtifactNotFoundError,
    CorruptArtifactError,
    InvalidInputError,
    PocketQueryError,
)
from pocketquery.sdk.validation import check, optional, whole
from pocketquery.server.federation.orchestration.federation import JOURNAL, finished_rounds
from pocketquery.server.federation.orchestration.journal import Journal
from pocketquery.server.federation.rounds.round_report import RoundReport
from pocketquery.server.private.accounting import Adversary, least_honest
from pocketquery.server.private.budget import (
    Charge,
    Season,
    Spent,
    spent,
    total,
)
from pocketquery.server.private.settings import SecureSettings

__all__ = ["ATTACKS", "Federation", "read_attacks", "read_federation"]

ATTACKS = Path("docs/results/privacy_attacks.json")


@dataclass(frozen=True)
class Federation:
    """A federation as its officer looks at it.

    Attributes:
        folder: where it lies.
        options: by name, as they were given, nested values included.
        secure: how private rounds are run; None where rounds are plain.
        cohort: devices a round.
        rounds: that are over, in order.
        charges: rows of the server's privacy ledger.
        devices: that may take part at all; None where nobody said.
        participations: how many devices took part how often in the season in force, where the
            devices' own ledgers lie in the folder, as a simulation's do; else None.
        attacks: result of benchmarks/privacy_attacks.py; None where there is none.
        rules: what a device insists on by default.
    """

    folder: Path
    options: Mapping[str, Any]
    secure: SecureSettings | None
    cohort: int
    rounds: tuple[RoundReport, ...] = ()
    charges: tuple[Charge, ...] = ()
    devices: int | None = None
    participations: Mapping[int, int] | None = None
    attacks: Mapping[str, Any] | None = None
    rules: DeviceRules = field(default_factory=DeviceRules)

    @property
    def season(self) -> Season | None:
        """The one that is declared; None without noise."""
        return self.secure.budget() if self.secure and self.secure.is_noisy else None

    @property
    def group(self) -> int:
        """Devices whose changes are one sum."""
        return self.cohort // self.secure.groups if self.secure else 1

    @property
    def least_honest(self) -> int | None:
        """Of any sum that a deviating server can learn, in a group of the size asked for."""
        if self.secure is None or self.group < 2:
            return None
        neighbours = min(self.group - 1, self.secure.neighbours)
        return least_honest(neighbours, 3 * neighbours // 5 + 1)

    def planned(self) -> Spent | None:
        """What the declared season costs when it is over; None without noise."""
        if self.secure is None or self.season is None or self.least_honest is None:
            return None
        known = [one for one in self.charges if one.season == self.season.name]
        first = known[0].round if known else 0
        rho = max((one.rho for one in known), default=None)
        rows = [
            self.season.charge(
                first + number,
                counted_on=self.secure.counted_on(self.secure.largest_group),
                least_honest=self.least_honest,
                rho=rho,
            )
            for number in range(self.season.rounds)
        ]
        return spent([*known, *(row for row in rows if row.round not in {k.round for k in known})])[
            self.season.name
        ]

    def summary(self) -> dict[str, Any]:
        """The figures of the page as JSON values; an infinite epsilon is None."""
        delta = None if self.secure is None else self.secure.delta
        seasons = spent(self.charges)
        everything = [total(list(seasons.values()))] if len(seasons) > 1 else []
        return {
            "secure": self.secure is not None,
            "privacy": "off" if self.secure is None else self.secure.privacy,
            "experimental": True,
            "rounds": len(self.rounds),
            "skipped": sum(one.skipped is not None for one in self.rounds),
            "quarantined": dict(
                sum((Counter(dict(one.quarantined)) for one in self.rounds), Counter())
            ),
            "least_honest": self.least_honest,
            "delta": delta,
            "seasons": [
                {
                    "season": one.season,
                    "rounds": one.rounds,
                    "participations": one.participations,
                    "epsilon": {who: _finite(one, who, delta) for who in one.rho},
                }
                for one in (*seasons.values(), *everything)
            ],
        }


def read_federation(
    folder: Path,
    *,
    settings: Path | None = None,
    attacks: Path | None = None,
    devices: int | None = None,
) -> Federation:
    """The federation in ``folder``; nothing in it changes.

    Args:
        folder: of the rounds: journal, and a simulation's settings and devices.
        settings: simulation.json, or the pyproject.toml of the Flower app; by default the folder's
            simulation.json.
        attacks: result of benchmarks/privacy_attacks.py; by default :data:`ATTACKS`, where it is.
        devices: that may take part at all.

    Raises:
        ArtifactNotFoundError: there is no such folder, settings or figures.
        ArtifactError: the journal cannot be read, or its server runs.
        CorruptArtifactError: settings or figures are none.
        InvalidInputError: an option is out of its range.
    """
    check("devices", devices, optional(whole()))
    if not folder.is_dir():
        raise ArtifactNotFoundError(f"{folder} is no folder; name the one that the rounds ran in")
    options = _options(settings or folder / "simulation.json")
    secure = None if options["secure"] is None else SecureSettings.from_dict(options["secure"])
    rounds = finished_rounds(folder)
    charges: list[Charge] = []
    if (folder / JOURNAL).is_file():
        with Journal.open(folder / JOURNAL) as journal:
            charges = journal.charges()
    cohort = options["settings"]["clients_per_round"]
    federation = None if secure is None else secure.federation_id
    season = secure.season if secure and secure.is_noisy else None
    return Federation(
        folder=folder,
        options=options,
        secure=secure,
        cohort=cohort,
        rounds=tuple(rounds),
        charges=tuple(charges),
        devices=devices,
        participations=_participations(folder, federation, season, devices),
        attacks=read_attacks(attacks),
    )


def read_attacks(path: Path | None) -> Mapping[str, Any] | None:
    """The figures at ``path``; None where it is the default and not there.

    Raises:
        ArtifactNotFoundError: there is no such file.
        CorruptArtifactError: it is no result of the benchmark.
    """
    if path is None and not ATTACKS.is_file():
        return None
    path = path or ATTACKS
    result = _json(path, "run benchmarks/privacy_attacks.py, or leave --attacks out")
    figures = result.get("figures")
    found = figures if isinstance(figures, dict) else {}
    kinds = ("identification", "membership", "inversion")
    if not all(
        isinstance(found.get(kind, {}), dict)
        and all(isinstance(one, dict) for one in found.get(kind, {}).values())
        for kind in kinds
    ) or not any(found.get(kind) for kind in kinds):
        raise CorruptArtifactError(
            f"{path} is no result of benchmarks/privacy_attacks.py, expected figures of "
            f"{', '.join(kinds)} by arm"
        )
    return found


def _options(path: Path) -> dict[str, Any]:
    """FederationOptions as JSON values, from either kind of file."""
    from pocketquery.server.federation.rounds.options import OPTIONS, FederationOptions

    known = {one.name for one in OPTIONS}
    if path.suffix == ".toml":
        try:
            config = tomllib.loads(path.read_text(encoding="utf-8"))["tool"]["flwr"]["app"][
                "config"
            ]
        except FileNotFoundError as error:
            raise ArtifactNotFoundError(f"{path} is not there") from error
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptArtifactError(
                f"{path} has no table [tool.flwr.app.config] ({error}); name the pyproject.toml "
                "of the Flower app"
            ) from error
        given = {name: value for name, value in config.items() if name in known}
        return FederationOptions.of(given).to_dict()
    found = _json(path, "name the settings with --settings: the Flower app's pyproject.toml")
    try:
        options = found["options"]
        options["settings"]["clients_per_round"] + 0
        return {"secure": None, **options}
    except (KeyError, TypeError) as error:
        raise CorruptArtifactError(
            f"{path} is not a simulation's settings ({error}); expected simulation.json"
        ) from error


def _json(path: Path, advice: str) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise ArtifactNotFoundError(f"{path} is not there; {advice}") from error
    except (ValueError, RecursionError) as error:
        raise CorruptArtifactError(f"{path} is not JSON ({error}); {advice}") from error
    if not isinstance(found, dict):
        raise CorruptArtifactError(f"{path} holds no JSON object; {advice}")
    return found


def _participations(
    folder: Path, federation: bytes | None, season: str | None, devices: int | None
) -> dict[int, int] | None:
    if federation is None or season is None:
        return None
    paths = sorted((folder / "devices").glob("**/*privacy.json"))
    if not paths:
        return None
    counts: Counter[int] = Counter()
    for path in paths:
        try:
            account = Ledger(path).account(federation)
        except PocketQueryError as error:
            raise CorruptArtifactError(f"the ledger of a simulated device: {error}") from error
        counts[account.participations if account.season == season else 0] += 1
    if devices is not None and devices < len(paths):
        raise InvalidInputError(
            f"found the ledgers of {len(paths)} devices in {folder}, but --devices is {devices}"
        )
    if devices is not None:
        counts[0] += devices - len(paths)
    return dict(sorted(counts.items()))


def _finite(one: Spent, who: Adversary, delta: float | None) -> float | None:
    value = math.inf if delta is None else one.epsilon(who, delta)
    return None if math.isinf(value) else value
