"""The gateway's log: one JSON object a line, none of which names a device.

A line says what happened to a request by route, status and a code; never a key, an address, a
nonce, a user agent or a body. So a log that is kept, or lost, tells of nobody.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

__all__ = ["event", "log_to"]

_LOGGER = logging.getLogger("pocketquery.gateway")


def event(
    name: str, level: int = logging.INFO, *, error: BaseException | None = None, **fields: Any
) -> None:
    """Write a line: what happened, and fields that are numbers or words of ours; of an ``error``
    its class and where it was."""
    if _LOGGER.isEnabledFor(level):
        exc_info = None if error is None else (type(error), error, error.__traceback__)
        # Made here and not by log(), which looks through the stack for a place that is not written.
        record = logging.LogRecord(_LOGGER.name, level, "", 0, name, None, exc_info)
        record.fields = fields
        _LOGGER.handle(record)


def log_to(stream: TextIO | None = None, level: int = logging.INFO) -> None:
    """Send the log, and what others in this process log, to ``stream`` (default: stderr)."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_Lines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    _LOGGER.setLevel(level)
    # It would write addresses and paths; routes and status are in ours.
    logging.getLogger("uvicorn.access").disabled = True


class _Lines(logging.Formatter):
    """A record as one line of JSON; of an error, its class and where it was, not its text, which
    may quote what a device sent."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.msg if record.name == _LOGGER.name else record.name,
        }
        line |= getattr(record, "fields", {})
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
            trace = record.exc_info[2]
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            if trace is not None:
                line["at"] = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        return json.dumps(line)
