"""An evaluation as a table."""

from __future__ import annotations

from pocketquery.server.evaluation.metrics import METRICS
from pocketquery.server.evaluation.retrieval import Evaluation

__all__ = ["evaluation_table"]


def evaluation_table(evaluation: Evaluation) -> str:
    """One line a system and one for the retention, if any; one column a metric."""
    rows: dict[str, dict[str, float]] = evaluation.means()
    lines = [" " * 10 + "".join(f"{metric:>12}" for metric in METRICS)]
    lines += [
        f"{name:<10}" + "".join(f"{means[metric]:>12.4f}" for metric in METRICS)
        for name, means in rows.items()
    ]
    retention = evaluation.retention()
    if not retention:
        return "\n".join(lines)
    cells = ["-" if retention[metric] is None else f"{retention[metric]:.1%}" for metric in METRICS]
    lines.append(f"{'retention':<10}" + "".join(f"{cell:>12}" for cell in cells))
    return "\n".join(lines)
