"""The device's own privacy ledger: what private rounds have cost its user, and what is left.

A round is charged before anything of it is stored or sent, and nothing is ever refunded: a device
that is killed in between has paid for a round it was not in. The ledger holds no query, so erasing
queries leaves it; a deleted app is a new device. A ledger that cannot be read is not begun anew:
that would be a refund.

Costs add up as rho of zero-concentrated differential privacy (Bun and Steinke, TCC 2016), kept in
whole millionths, rounded up.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NoReturn

from pocketquery.client.private.binding import Binding, Privacy
from pocketquery.client.private.encoding import Encoding
from pocketquery.client.private.noise import rho
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError, PocketQueryError
from pocketquery.sdk.files import make_folder, sha256_bytes, write_atomic
from pocketquery.sdk.settings.declaration import Settings
from pocketquery.sdk.validation import Rule, whole

__all__ = ["Account", "Ledger", "LEDGER", "cost_of", "epsilon_of"]

LEDGER = "privacy.json"
"""Its name beside the query store."""

_FORMAT = "pocketquery-privacy-ledger"
_VERSION = 1
_UNIT = 1_000_000
_MODE = 0o600
_LARGEST = 1 << 20  # bytes
# Orders of Renyi divergence that epsilon is the least over: 1 + 10**-3 ... 1 + 10**6.
_ORDERS = tuple(1 + 10 ** (power / 100) for power in range(-300, 601))


@dataclass(frozen=True)
class Account(Settings):
    """What the ledger knows of one federation."""

    last_round: Annotated[
        int | None,
        whole(0),
        "the last round that a secret was drawn for; None before the first. No older one is "
        "answered",
    ] = None
    binding: Annotated[
        str,
        _TEXT,
        "hexadecimal digest of its binding; empty before the first. The same round is answered "
        "under the same binding alone",
    ] = ""
    last_masked: Annotated[
        int | None, whole(0), "the last round that was charged; None before the first"
    ] = None
    season: Annotated[str, _TEXT, "the one that it was in"] = ""
    seasons: Annotated[int, whole(0), "how many there were"] = 0
    participations: Annotated[int, whole(0), "in this season"] = 0
    spent: Annotated[int, whole(0), "rho of this season, in millionths"] = 0
    spent_ever: Annotated[int, whole(0), "of all seasons"] = 0

    @property
    def rho(self) -> float:
        """Of this season."""
        return self.spent / _UNIT

    @property
    def rho_ever(self) -> float:
        """Of all seasons, which add up."""
        return self.spent_ever / _UNIT

    def charged(self, round: int, privacy: Privacy, cost: int) -> Account:
        """This account after a masked change in ``round``, at ``cost`` millionths; a season of
        another name than the last begins at nothing."""
        if privacy.mode == "off":
            return replace(self, last_masked=round)
        begun = self
        if self.season != privacy.season or not self.seasons:
            begun = replace(
                self, season=privacy.season, seasons=self.seasons + 1, participations=0, spent=0
            )
        return replace(
            begun,
            last_masked=round,
            participations=begun.participations + 1,
            spent=begun.spent + cost,
            spent_ever=begun.spent_ever + cost,
        )


class Ledger:
    """The accounts of a device by federation, in one small file.

    Args:
        path: the file; None keeps them in this process alone.

    A damaged file is an error at every call: rounds stay declined until somebody removes it, and
    with it the account of what was spent.
    """

    def __init__(self, path: Path | str | None = None) -> None:
        self._path = None if path is None else Path(path)
        self._accounts: dict[str, Account] = {}

    def account(self, federation: bytes) -> Account:
        """That of a federation; an empty one where there is none yet.

        Raises:
            CorruptArtifactError: the file is damaged, or of a newer version.
            OSError: it cannot be read.
        """
        return self.accounts().get(federation.hex(), Account())

    def accounts(self) -> dict[str, Account]:
        """All accounts, by hexadecimal id of the federation. Errors as :meth:`account`."""
        if self._path is not None:
            self._accounts = _read(self._path)
        return dict(self._accounts)

    def begin(self, binding: Binding) -> None:
        """Remember that a secret is drawn for this round under this binding; it is on disk when
        this returns.

        Raises:
            InvalidInputError: the round, or a later one, had another.
            OSError: the disk is full; nothing was changed.
        """
        account, beta = self.account(binding.federation), binding.digest.hex()
        last = -1 if account.last_round is None else account.last_round
        if (binding.round, beta) == (last, account.binding):
            return
        if binding.round <= last:
            raise InvalidInputError(
                f"round {binding.round} is offered, but this device took part in round {last} "
                "under another binding; expected a later one"
            )
        self._write(binding.federation, replace(account, last_round=binding.round, binding=beta))

    def charge(self, binding: Binding) -> None:
        """Charge the round; it is on disk when this returns. Charged twice, it is charged once.

        Raises:
            OSError: the disk is full; nothing was changed, and nothing may be sent.
        """
        account = self.account(binding.federation)
        if account.last_masked is not None and account.last_masked >= binding.round:
            return
        cost = cost_of(binding.privacy, binding.encoding)
        self._write(binding.federation, account.charged(binding.round, binding.privacy, cost))

    def _write(self, federation: bytes, account: Account) -> None:
        accounts = self._accounts | {federation.hex(): account}
        if self._path is not None:
            body = {name: asdict(one) for name, one in sorted(accounts.items())}
            text = json.dumps(
                {"format": _FORMAT, "version": _VERSION, "sha256": _digest(body), "accounts": body},
                indent=1,
            )
            make_folder(self._path.parent)
            write_atomic(self._path, text + "\n", mode=_MODE)
        self._accounts = accounts


def cost_of(privacy: Privacy, encoding: Encoding | None) -> int:
    """What one masked change costs, rho in millionths, rounded up: that of the discrete Gaussian
    sum over ``counted_on`` devices.

    Args:
        privacy: of the round.
        encoding: of the round; None where it is not known yet: no encoding costs less.
    """
    if privacy.mode == "off":
        return 0
    if encoding is None:
        return math.ceil(_UNIT / (2 * privacy.noise_multiplier**2))
    return math.ceil(_UNIT * rho(privacy.noise_multiplier, encoding, privacy.counted_on))


def epsilon_of(rho: float, delta: float) -> float:
    """The epsilon of ``rho``-zCDP at ``delta``: the least over orders of Renyi divergence of
    Canonne, Kamath and Steinke, NeurIPS 2020, proposition 12.

    Args:
        rho: from 0.
        delta: between 0 and 1.
    """
    if rho <= 0:
        return 0.0
    return max(
        0.0,
        min(
            rho * order + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
            for order in _ORDERS
        ),
    )


_TEXT = Rule(lambda value: isinstance(value, str) and len(value) <= 64, "up to 64 characters")


def _read(path: Path) -> dict[str, Account]:
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except FileNotFoundError:
        return {}
    try:
        document: Mapping[str, Any] = json.loads(data)
        body = document["accounts"]
        known = (document["format"], document["version"]) == (_FORMAT, _VERSION)
        accounts = {name: Account(**values) for name, values in body.items()}
        whole_file = document["sha256"] == _digest(body)
    except (
        AttributeError,
        KeyError,
        TypeError,
        ValueError,
        RecursionError,
        PocketQueryError,
    ) as error:
        _damaged(path, f"{error!s:.200}", error)
    if not known or not whole_file:
        _damaged(path, f"{document['format']!r:.40} {document['version']!r:.20}, a digest")
    return accounts


def _digest(body: object) -> str:
    return sha256_bytes(json.dumps(body, sort_keys=True).encode())


def _damaged(path: Path, problem: str, cause: Exception | None = None) -> NoReturn:
    raise CorruptArtifactError(
        f"{path} is no ledger of this version, or was changed ({problem}). Private rounds are "
        "declined while it is there; remove it, and what was spent is forgotten"
    ) from cause
