"""The outermost middleware: an address's rate limit, metrics and a log line for every request.

What the protocol refuses itself, because it is no request or too large a one, is counted the same
way: see connections.py.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pocketquery_gateway.gateway import Gateway
from pocketquery_gateway.logs import event
from pocketquery_gateway.metrics import Metrics
from pocketquery_gateway.problems import Problem

__all__ = ["FULL", "PROBLEM", "Entrance", "note"]

FULL = "is_full"
"""In the state of a request's scope: whether it came on one connection too many."""
PROBLEM = "problem"
"""In the same: the problem that is the answer."""

_PREFLIGHT_HEADER = "access-control-request-method"
_FULL_RETRY_S = 10.0


def note(
    metrics: Metrics, method: str, route: str, problem: Problem | int, seconds: float = 0.0
) -> None:
    """Count a request, and write its line to the log.

    Args:
        metrics: where it is counted.
        method: of HTTP; empty where none was read.
        route: a path of the application; "none", "preflight" or "unread" where it has none.
        problem: that was the answer, or else the status.
        seconds: until it was answered.
    """
    status = problem if isinstance(problem, int) else problem.status
    fields: dict[str, Any] = {} if isinstance(problem, int) else {"code": problem.code}
    metrics.answered(route, status, seconds)
    milliseconds = round(1000 * seconds, 1)
    event("request", method=method, route=route, status=status, milliseconds=milliseconds, **fields)


class Entrance:
    """The outermost of a gateway's applications.

    Args:
        app: what answers the requests that pass.
        gateway: whose limits count.
        cross_origin: options of CORSMiddleware, so that a page can read why it is refused; None
            where no page may use the gateway.
        watches: whether these are requests for health or metrics, which come by themselves and
            are not written to the log.
    """

    def __init__(
        self,
        app: ASGIApp,
        gateway: Gateway,
        cross_origin: Mapping[str, Any] | None = None,
        *,
        watches: bool = False,
    ) -> None:
        self._app, self._gateway, self._watches = app, gateway, watches
        self._refuse: ASGIApp = _answer_problem
        if cross_origin is not None:
            self._refuse = CORSMiddleware(_answer_problem, **cross_origin)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as an ASGI application."""
        started = time.perf_counter()
        state, headers = scope.setdefault("state", {}), Headers(scope=scope)
        is_preflight = scope["method"] == "OPTIONS" and _PREFLIGHT_HEADER in headers

        def count(answered: Problem | int) -> None:
            route = getattr(scope.get("endpoint"), "path", "none")
            route = "preflight" if is_preflight else route
            seconds = time.perf_counter() - started
            if not self._watches:
                note(self._gateway.metrics, scope["method"], route, answered, seconds)

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                count(state.get(PROBLEM) or message["status"])
            await send(message)

        try:
            self._admit(scope, headers)
        except Problem as problem:
            state[PROBLEM] = problem
            refuse = _answer_problem if is_preflight else self._refuse
            await refuse(scope, receive, answer)
            return
        try:
            await self._app(scope, receive, answer)
        except Exception:
            count(500)
            raise

    def _admit(self, scope: Scope, headers: Headers) -> None:
        client, authentication = scope.get("client"), self._gateway.authentication
        authentication.admit(None if client is None else client[0], watches=self._watches)
        if scope["state"].get(FULL):
            raise Problem(503, "busy", "too many connections", retry_after=_FULL_RETRY_S)
        if not self._watches:
            authentication.check_authority(headers.get("host", ""))


async def _answer_problem(scope: Scope, receive: Receive, send: Send) -> None:
    await scope["state"][PROBLEM].response()(scope, receive, send)
