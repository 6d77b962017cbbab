"""Errors as answers to a request: problem details (RFC 9457)."""

from __future__ import annotations

import json
import math

from starlette.responses import Response

__all__ = ["Problem"]

_TITLES = {
    400: "The request cannot be read",
    401: "The request is not signed as it must be",
    403: "This device may not do that",
    404: "There is no such thing here",
    405: "This cannot be done here",
    408: "The request took too long to come",
    409: "This does not fit the current state",
    413: "The body is too large",
    415: "The body is of another kind",
    416: "There is no such range",
    421: "This request is for another gateway",
    422: "The update was left out",
    429: "Too many requests",
    431: "The request's headers are too large",
    503: "The gateway cannot answer now",
}


class Problem(Exception):
    """An answer that says what is wrong.

    Args:
        status: of HTTP.
        code: a word that programs go by; docs/gateway.md lists them.
        detail: what was found, what was expected, what to do. It names no device.
        retry_after: seconds until trying again is of use; None: at any time, or never.
    """

    def __init__(
        self, status: int, code: str, detail: str, *, retry_after: float | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.retry_after = retry_after

    def response(self) -> Response:
        """As an answer."""
        headers = {"cache-control": "no-store"}
        if self.status in (408, 431):  # the rest of it may come still
            headers["connection"] = "close"
        if self.retry_after is not None:
            headers["retry-after"] = str(max(1, math.ceil(self.retry_after)))
        body = {
            "type": "about:blank",
            "title": _TITLES[self.status],
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
        }
        return Response(
            json.dumps(body), self.status, headers, media_type="application/problem+json"
        )
