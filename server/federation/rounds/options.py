"""The options of a federation by name, for command lines and for Flower's run configuration.

One table says what there is; the values become the dataclasses that the rounds work with, which
check them.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pocketquery.client.local_config import LocalConfig
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.federation.rounds.server_optimizers import optimizer_from_dict
from pocketquery.server.federation.rounds.settings import RoundSettings

__all__ = ["OPTIONS", "FederationOptions", "Option"]


@dataclass(frozen=True)
class Option:
    """One option: ``--name`` on a command line, ``name`` in a run configuration."""

    name: str
    default: int | float | str | bool
    help: str


_LOCAL = LocalConfig()
_ROUND = RoundSettings()

OPTIONS = (
    Option("rounds", 20, "how many rounds"),
    Option("clients-per-round", _ROUND.clients_per_round, "valid replies wanted in a round"),
    Option("over-selection", _ROUND.over_selection, "times as many devices are asked"),
    Option("least-replies", _ROUND.least_replies, "with fewer valid replies a round is skipped"),
    Option("deadline", _ROUND.deadline_seconds, "seconds after which replies are too late"),
    Option("clip-norm", _ROUND.clip_norm, "largest L2 norm of a device's change"),
    Option("weighting", _ROUND.weighting, "of devices: equal, or declared (by themselves)"),
    Option("largest-weight", _ROUND.largest_weight, "largest weight a device may declare"),
    Option("aggregation", _ROUND.aggregation, "mean, trimmed_mean or median (across shards)"),
    Option("shards", _ROUND.shards, "running sums that updates are dealt to"),
    Option("optimizer", "fedavg", "of the server: fedavg, fedavgm, fedadam or fedyogi"),
    Option("server-learning-rate", 1.0, "of the server's optimizer"),
    Option("steps", _LOCAL.steps, "training steps on a device"),
    Option("batch-size", _LOCAL.batch_size, "queries a step"),
    Option("learning-rate", _LOCAL.learning_rate, "on the device"),
    Option("anchor-weight", _LOCAL.anchor_weight, "of the pull to the shipped encoder"),
    Option("opened-weight", _LOCAL.opened_loss_weight, "of opened results; 0 is off, 1 is on"),
    Option("typo-rate", _LOCAL.typo_rate, "share of letters mistyped in the noisy view"),
    Option("proximal", _LOCAL.proximal, "FedProx: share of the way back after each step"),
    Option("client-init", _LOCAL.client_init, "global, or ema (FedEMA)"),
    Option("compress", True, "updates in 8 bits with error feedback, not in float32"),
    Option("seed", 0, "of the choice of devices"),
)


@dataclass(frozen=True)
class FederationOptions:
    """What :data:`OPTIONS` describe, checked.

    Attributes:
        rounds: how many.
        seed: of the choice of devices.
        compress: whether updates travel in 8 bits.
        settings: of a round.
        local: how devices train.
    """

    rounds: int = 20
    seed: int = 0
    compress: bool = True
    settings: RoundSettings = field(default_factory=RoundSettings)
    local: LocalConfig = field(default_factory=LocalConfig)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> FederationOptions:
        """The options ``given`` by name; the others have their defaults.

        Raises:
            InvalidInputError: a value of another kind, or out of range; names that are no options
                are left to the caller.
        """
        v = {one.name: _value(one, given.get(one.name, one.default)) for one in OPTIONS}
        optimizer = {"name": v["optimizer"], "learning_rate": v["server-learning-rate"]}
        settings = RoundSettings(
            clients_per_round=v["clients-per-round"],
            over_selection=v["over-selection"],
            least_replies=_least_replies(v["least-replies"], v["clients-per-round"]),
            deadline_seconds=v["deadline"],
            clip_norm=v["clip-norm"],
            weighting=v["weighting"],
            largest_weight=v["largest-weight"],
            aggregation=v["aggregation"],
            shards=v["shards"],
            optimizer=optimizer_from_dict(optimizer),
        )
        local = LocalConfig(
            steps=v["steps"],
            batch_size=v["batch-size"],
            learning_rate=v["learning-rate"],
            anchor_weight=v["anchor-weight"],
            opened_loss_weight=v["opened-weight"],
            typo_rate=v["typo-rate"],
            proximal=v["proximal"],
            client_init=v["client-init"],
        )
        if v["rounds"] < 1 or v["seed"] < 0:
            raise InvalidInputError(
                f"found {v['rounds']} rounds and the seed {v['seed']}, expected at least one round "
                "and a seed from 0"
            )
        return cls(v["rounds"], v["seed"], v["compress"], settings, local)

    def with_secret_shards(self) -> FederationOptions:
        """The same, with shards that no device can foresee: its nonce decides where it is summed.

        Not for simulations, which are to be the same from the same seed.
        """
        return replace(self, settings=replace(self.settings, shard_seed=secrets.randbits(63)))

    def to_dict(self) -> dict[str, Any]:
        """The options as JSON values; the seed of the shards, which may be a secret, is not one."""
        return {
            "rounds": self.rounds,
            "seed": self.seed,
            "compress": self.compress,
            "settings": {k: v for k, v in self.settings.to_dict().items() if k != "shard_seed"},
            "local": asdict(self.local),
        }


def _least_replies(least: int, wanted: int) -> int:
    """``least``; its default is for rounds of many, and gives way to a round of few."""
    return min(least, wanted) if least == _ROUND.least_replies else least


def _value(option: Option, given: Any) -> Any:
    """``given`` in the option's kind; a whole number does where a fraction may stand."""
    kind = type(option.default)
    if kind is float and type(given) is int:
        return float(given)
    if type(given) is not kind:
        raise InvalidInputError(
            f"{option.name} is {given!r}, expected {'a ' + kind.__name__}: {option.help}"
        )
    return given
