"""Objectives by name. A name is imported when it is asked for."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping
from typing import Any

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives.objective import Objective

__all__ = ["OBJECTIVES", "build_objective"]


OBJECTIVES = {
    "mlm": "Mlm",
    "simcse": "SimCse",
    "contrastive": "Contrastive",
    "auto_mlm": "AutoMlm",
    "cmlm": "Cmlm",
    "ict": "Ict",
    "prop": "Prop",
    "tsdae": "Tsdae",
    "query_bert": "QueryBert",
    "cpdae": "Cpdae",
    "seed": "Seed",
    "fine_tune": "FineTune",
    "ccp": "Ccp",
    "gur": "Gur",
}
"""The class of every objective, in the module of its name; ``<class>Config`` are its settings."""


def build_objective(
    name: str, encoder: SentenceEncoder, options: Mapping[str, Any] | None = None
) -> Objective[Any]:
    """The objective ``name`` around ``encoder``.

    Args:
        name: a key of :data:`OBJECTIVES`.
        encoder: the one to be trained.
        options: fields of the objective's configuration; strings are read as the field's type.

    Raises:
        InvalidInputError: no such objective or option, or a value the option cannot have.
    """
    if name not in OBJECTIVES:
        raise InvalidInputError(f'unknown objective "{name}"; known are {", ".join(OBJECTIVES)}')
    module = importlib.import_module(f"pocketquery.server.objectives.{name}")
    config = _config(name, getattr(module, f"{OBJECTIVES[name]}Config"), options or {})
    objective: Objective[Any] = getattr(module, OBJECTIVES[name])(encoder, config)
    return objective


def _config(name: str, kind: type[Any], options: Mapping[str, Any]) -> Any:
    fields = {field.name: field for field in dataclasses.fields(kind)}
    values = {}
    for key, value in options.items():
        if key not in fields:
            raise InvalidInputError(
                f'the objective "{name}" has no option "{key}"; it has {", ".join(fields)}'
            )
        values[key] = _read(f"{name}.{key}", value, fields[key].default)
    return kind(**values)


def _read(name: str, value: Any, default: Any) -> Any:
    """``value`` as the type of ``default``, where it came as text."""
    if not isinstance(value, str) or isinstance(default, str):
        return value
    if isinstance(default, bool):
        if value.lower() not in ("true", "false"):
            raise InvalidInputError(f"{name} is {value!r}; expected true or false")
        return value.lower() == "true"
    try:
        return type(default)(value)
    except ValueError as error:
        kind = type(default).__name__
        raise InvalidInputError(f"{name} is {value!r}; expected a value of type {kind}") from error
