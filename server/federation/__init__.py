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
        "opening": ["OpenRound", "open_round"],
        "rounds": ["apply", "receive", "close_round", "Receipt"],
        "round_report": ["RoundReport"],
        "settings": ["RoundSettings"],
        "state": ["FederationState"],
        "server_optimizers": ["FedAvg", "FedAvgM", "FedAdam", "FedYogi"],
        "journal": ["Journal"],
        "validation": ["Reason"],
    },
)
