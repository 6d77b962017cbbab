"""What the demo measured, and its machine-readable form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pocketquery.sdk.index.index import Hit

__all__ = ["DemoResults", "System"]


@dataclass(frozen=True)
class System:
    """One way to search: its quality on held-out questions, what it weighs, what a query costs.

    Attributes:
        name: ``teacher``, ``student_fp32``, ``student_int8``, ``bm25`` or ``hybrid``.
        metrics: metric -> mean over the questions.
        bytes: of the query encoder on the device; 0 where there is none.
        encode_ms: median milliseconds to encode one query, one call at a time; None where
            nothing is encoded, or by another system's encoder.
    """

    name: str
    metrics: Mapping[str, float]
    bytes: int
    encode_ms: float | None


@dataclass(frozen=True)
class DemoResults:
    """Everything the report shows."""

    systems: Sequence[System]
    searches: Sequence[tuple[str, Sequence[Hit]]]
    teacher: str
    space_id: str
    student: str
    documents: int
    questions: int
    index_bytes: int
    gate: Mapping[str, Any] | None
    seconds: float

    def system(self, name: str) -> System:
        """The system of that name."""
        return next(system for system in self.systems if system.name == name)

    @property
    def retention(self) -> float:
        """nDCG@10 of the int8 encoder over its teacher's."""
        ours, teacher = self.system("student_int8"), self.system("teacher")
        return ours.metrics["ndcg@10"] / teacher.metrics["ndcg@10"]

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "ndcg_at_10": {s.name: s.metrics["ndcg@10"] for s in self.systems},
            "retention": self.retention,
            "bundle_bytes": self.system("student_int8").bytes,
            "encode_ms_p50": self.system("student_int8").encode_ms,
            "metrics": {s.name: dict(s.metrics) for s in self.systems},
            "bytes": {s.name: s.bytes for s in self.systems},
            "encode_ms": {s.name: s.encode_ms for s in self.systems},
            "index_bytes": self.index_bytes,
            "documents": self.documents,
            "questions": self.questions,
            "teacher": self.teacher,
            "student": self.student,
            "space_id": self.space_id,
            "gate": self.gate,
            "seconds": round(self.seconds, 1),
        }
