"""Objectives by name. A name is imported when it is asked for."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives.objective import Objective

__all__ = ["OBJECTIVES", "build_objective"]


class _Entry(NamedTuple):
    module: str
    objective: str
    config: str
    summary: str


OBJECTIVES: dict[str, _Entry] = {
    "mlm": _Entry("mlm", "Mlm", "MlmConfig", "predict masked tokens"),
    "simcse": _Entry("simcse", "SimCse", "SimCseConfig", "two dropouts of one text"),
    "contrastive": _Entry(
        "contrastive", "Contrastive", "ContrastiveConfig", "texts of one group: margin, softmax"
    ),
    "auto_mlm": _Entry(
        "auto_mlm", "AutoMlm", "AutoMlmConfig", "Auto-MLM: sessions, and MLM through the vector"
    ),
    "cmlm": _Entry("cmlm", "Cmlm", "CmlmConfig", "MLM conditioned on the neighbour's vector"),
    "ict": _Entry("ict", "Ict", "IctConfig", "a sentence finds its block"),
    "prop": _Entry("prop", "Prop", "PropConfig", "the likelier of two word sets"),
    "tsdae": _Entry("tsdae", "Tsdae", "TsdaeConfig", "denoise through one vector"),
    "query_bert": _Entry(
        "query_bert", "QueryBert", "QueryBertConfig", "Query-BERT: BYOL without negatives"
    ),
    "cpdae": _Entry(
        "cpdae", "Cpdae", "CpdaeConfig", "CPDAE: words from the vector, and their contrast"
    ),
    "seed": _Entry("seed", "Seed", "SeedConfig", "a weak decoder that sees only the vector"),
    "fine_tune": _Entry(
        "fine_tune", "FineTune", "FineTuneConfig", "queries, passages and hard negatives"
    ),
    "ccp": _Entry("ccp", "Ccp", "CcpConfig", "CCP: a sentence's neighbours, many languages"),
    "gur": _Entry("gur", "Gur", "GurConfig", "GUR: infilling and contrast of mined pairs"),
}


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
    entry = OBJECTIVES[name]
    module = importlib.import_module(f"pocketquery.server.objectives.{entry.module}")
    config = _config(name, getattr(module, entry.config), options or {})
    objective: Objective[Any] = getattr(module, entry.objective)(encoder, config)
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
