"""Federated rounds on the server: validation, sums, optimizers, the journal that survives kills."""

from pocketquery.sdk.lazy import lazy_names

__all__ = [
    "apply",
    "open_round",
    "receive",
    "close_round",
    "OpenRound",
    "Receipt",
    "RoundReport",
    "RoundSettings",
    "FederationState",
    "FedAvg",
    "FedAvgM",
    "FedAdam",
    "FedYogi",
    "Journal",
    "Reason",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "rounds.open_round": ["OpenRound", "open_round"],
        "rounds.round": ["apply", "receive", "close_round", "Receipt"],
        "rounds.round_report": ["RoundReport"],
        "rounds.settings": ["RoundSettings"],
        "rounds.state": ["FederationState"],
        "rounds.server_optimizers": ["FedAvg", "FedAvgM", "FedAdam", "FedYogi"],
        "orchestration.journal": ["Journal"],
        "rounds.validation": ["Reason"],
    },
)
