"""What a gateway counts, for Prometheus. No label names a device, an address or a round."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

__all__ = ["Metrics"]

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """The metrics of one gateway."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "gateway_requests", "Requests", ("route", "status"), registry=self.registry
        )
        self.seconds = Histogram(
            "gateway_request_seconds",
            "Time to answer",
            ("route",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.updates = Counter(
            "gateway_updates", "Updates, by verdict", ("verdict",),
            registry=self.registry,
        )  # fmt: skip
        self.replies = Counter(
            "gateway_replies", "Replies in private rounds, by verdict",
            ("stage", "verdict"), registry=self.registry,
        )  # fmt: skip
        self.attestations = Counter(
            "gateway_attestations", "Evidence that was checked, by outcome", ("outcome",),
            registry=self.registry,
        )  # fmt: skip
        self.ended = Counter(
            "gateway_connections_ended", "Connections that were ended, by reason", ("reason",),
            registry=self.registry,
        )  # fmt: skip
        self.devices = self._gauge("gateway_devices", "Registered devices")
        self.open = self._gauge("gateway_round_open", "Whether a round takes updates")
        self.accepted = self._gauge("gateway_round_accepted", "Updates that are in it, or seats")
        self.wanted = self._gauge("gateway_round_wanted", "Updates wanted of the open round")
        self.left = self._gauge("gateway_round_seconds_left", "Until the open round is answered")
        self.stage = self._gauge("gateway_round_stage", "Of a private round; 0: none is open")
        self.awaited = self._gauge("gateway_round_awaited", "Devices whose reply is awaited in it")
        self.waiting = self._gauge("gateway_journal_waiting", "Tasks that wait for the journal")
        self.batches = self._gauge("gateway_journal_batches", "Transactions since the start")
        self._of_answers: dict[tuple[str, int], tuple[Counter, Histogram]] = {}

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Count a request and how long it took; routes and statuses are few."""
        counters = self._of_answers.get((route, status))
        if counters is None:
            counters = self.requests.labels(route, str(status)), self.seconds.labels(route)
            self._of_answers[route, status] = counters
        counters[0].inc()
        counters[1].observe(seconds)

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(name, text, registry=self.registry)
