"""Objectives by name. A name is imported when it is asked for."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives.objective import Objective

__all__ = ["OBJECTIVES", "build_objective", "objective_class"]

_GROUP = "pocketquery.objectives"  # of entry points: other packages register theirs here

OBJECTIVES = {
    "mlm": "Mlm",
    "simcse": "SimCse",
    "contrastive": "Contrastive",
    "auto_mlm": "AutoMlm",
    "ict": "Ict",
    "query_bert": "QueryBert",
    "cpdae": "Cpdae",
    "fine_tune": "FineTune",
    "ccp": "Ccp",
    "gur": "Gur",
}
"""The class of every built-in objective, in the module of its name."""

_BASELINES = ("cmlm", "prop", "quick_thought", "seed", "tsdae")  # registered by research/


def objective_class(name: str) -> tuple[str, str]:
    """Module and class of the objective ``name``; ``<class>Config`` beside it are its settings.

    Args:
        name: a key of :data:`OBJECTIVES`, or of an installed package's entry point in the group
            ``pocketquery.objectives``.

    Raises:
        InvalidInputError: there is no such objective, or it is a baseline that is not installed.
    """
    if name in OBJECTIVES:
        return f"pocketquery.server.objectives.{name}", OBJECTIVES[name]
    registered = {point.name: point for point in entry_points(group=_GROUP)}
    if name in registered:
        return registered[name].module, registered[name].attr
    if name in _BASELINES:
        raise InvalidInputError.in_package(f'the objective "{name}" is a baseline')
    known = ", ".join((*OBJECTIVES, *sorted(registered)))
    raise InvalidInputError(f'unknown objective "{name}"; known are {known}')


def build_objective(
    name: str, encoder: SentenceEncoder, options: Mapping[str, Any] | None = None
) -> Objective[Any]:
    """The objective ``name`` around ``encoder``.

    Args:
        name: as :func:`objective_class` takes it.
        encoder: the one to be trained.
        options: fields of the objective's configuration; strings are read as the field's type.

    Raises:
        InvalidInputError: no such objective or option, or a value the option cannot have.
    """
    place, title = objective_class(name)
    module = importlib.import_module(place)
    config = _config(name, getattr(module, f"{title}Config"), options or {})
    objective: Objective[Any] = getattr(module, title)(encoder, config)
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
