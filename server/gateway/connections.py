"""How long a connection of a device may say nothing, or little at a time, and how many an address
has at once.

uvicorn waits for a request without an end; its one timer begins after an answer. Whoever opens
connections and is silent would so have all that a gateway takes. Here each request has a time in
which its headers have come, another for its body, and its answer one in which it is taken; a
connection that passes one ends. What ended is counted in the metrics, and is in no log: a line for
each would be one more thing to flood.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Sequence
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from pocketquery.server.gateway.limits import network_of
from pocketquery.server.gateway.metrics import Metrics
from pocketquery.server.gateway.problems import Problem
from pocketquery.server.gateway.settings import GatewaySettings

__all__ = ["limited_protocol"]

_AFTER = 5.0  # seconds: who reads the body has its own limit, and answers first


def limited_protocol(settings: GatewaySettings, metrics: Metrics) -> type[asyncio.Protocol]:
    """A class for uvicorn's ``http``: HTTP/1.1 within the limits of ``settings``.

    Args:
        settings: how the gateway is run.
        metrics: where connections that were ended are counted.
    """
    proxies = settings.trusted_proxies if settings.behind_proxy else ()
    made = _Limits(settings, _Addresses(settings.most_of_address, proxies), metrics)

    class LimitedProtocol(_Limited):
        limits = made

    return LimitedProtocol


class _Addresses:
    """How many connections each address has.

    Args:
        most: of one; 0: as many as it likes.
        exempt: addresses and networks that may have more; "*" is all of them.
    """

    def __init__(self, most: int, exempt: Sequence[str]) -> None:
        self._most = 0 if "*" in exempt else most
        self._exempt = [found for one in exempt if (found := _network(one)) is not None]
        self._open: Counter[bytes] = Counter()

    def enter(self, address: str | None) -> bytes | None:
        """Whom one more connection counts for, b"" for nobody; None where it is one too many."""
        if not self._most or self._is_exempt(address):
            return b""
        who = network_of(address)
        if self._open[who] >= self._most:
            return None
        self._open[who] += 1
        return who

    def leave(self, who: bytes) -> None:
        """A connection has ended that counted for ``who``."""
        if who:
            self._open[who] -= 1
            if not self._open[who]:
                del self._open[who]

    def _is_exempt(self, address: str | None) -> bool:
        found = _network(address or "")
        return found is not None and any(found[0] in network for network in self._exempt)


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """The network, or the address as one; None where it is neither."""
    try:
        return ipaddress.ip_network(text.partition("%")[0], strict=False)
    except ValueError:
        return None


class _Limits:
    """What all connections of a gateway have in common."""

    def __init__(self, settings: GatewaySettings, addresses: _Addresses, metrics: Metrics) -> None:
        self.header_seconds = settings.header_seconds
        self.body_seconds = settings.body_seconds
        self.addresses = addresses
        self.metrics = metrics
        said = f"the request's headers took more than {self.header_seconds:g} s; send them at once"
        self.slow = _raw(Problem(408, "slow", said))
        said = "too many connections from this address; use one for many requests"
        again = self.header_seconds
        self.many = _raw(Problem(429, "address_connections", said, retry_after=again))


def _raw(problem: Problem) -> bytes:
    """A problem as bytes on a connection that then closes."""
    answer = problem.response()
    answer.headers["connection"] = "close"
    reason = {408: b"Request Timeout", 429: b"Too Many Requests"}[problem.status]
    lines = [b"HTTP/1.1 %d %s" % (problem.status, reason)]
    lines += [b"%s: %s" % pair for pair in answer.raw_headers]
    return b"\r\n".join([*lines, b"", bytes(answer.body)])


class _Limited(HttpToolsProtocol):
    """One connection."""

    limits: _Limits

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._who: bytes | None = None
        self._request: asyncio.TimerHandle | None = None  # until it is here
        self._answer: asyncio.TimerHandle | None = None  # until more of it can be written
        self._came = False  # any byte of the request

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._who = self.limits.addresses.enter(self.client[0] if self.client else None)
        if self._who is None:
            self._end("address", self.limits.many)
        else:
            self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._request, self._answer, self.timeout_keep_alive_task):
            if timer is not None:
                timer.cancel()
        self._request = self._answer = None
        if self._who is not None:
            self.limits.addresses.leave(self._who)
            self._who = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._came = True
        if self._request is None:
            self._await_headers()
        super().data_received(data)

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._await("body", self.limits.body_seconds + _AFTER)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._came = False
        if self._request is not None:
            self._request.cancel()
            self._request = None
        if self.cycle.response_complete:  # before its body was here: uvicorn's timer began too soon
            self._await_headers()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._answer is None:
            self._answer = self.loop.call_later(self.limits.body_seconds, self._end, "answer")

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._answer is not None:
            self._answer.cancel()
            self._answer = None

    def timeout_keep_alive_handler(self) -> None:
        """End a connection that is idle after an answer, whether that was read or not."""
        if self.transport.get_write_buffer_size():
            self._end("answer")
        else:
            super().timeout_keep_alive_handler()

    def _await_headers(self) -> None:
        self._await("headers", self.limits.header_seconds)

    def _await(self, what: str, seconds: float) -> None:
        if self._request is not None:
            self._request.cancel()
        self._request = self.loop.call_later(seconds, self._late, what)

    def _late(self, what: str) -> None:
        """The request did not come in time."""
        self._request = None
        is_answered = self.cycle is None or self.cycle.response_complete
        if what == "headers" and not is_answered:  # of the next, while the last is being answered
            self._await_headers()
        else:
            says = what == "headers" and self._came
            self._end(what, self.limits.slow if says else b"")

    def _end(self, reason: str, last: bytes = b"") -> None:
        """End the connection: what it was waiting for goes, as if the device had gone."""
        self.limits.metrics.ended.labels(reason).inc()
        if last:
            self.transport.write(last)
            self.transport.close()
            # Who does not read it is not waited for.
            self.loop.call_later(_AFTER, self.transport.abort)
        else:
            self.transport.abort()
