"""Sources, an encoder and parts from the arguments of ``pocketquery pretrain``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import torch

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.files import sha256_bytes
from pocketquery.server.corpus import GroupList, Kind, ReadOptions, Source
from pocketquery.server.corpus.readers.reading import open_source, read_all
from pocketquery.server.modeling import SentenceEncoder, tokenizer_fingerprint
from pocketquery.server.modeling.cooccurrence import begin_with_cooccurrence
from pocketquery.server.modeling.presets import PRESETS, new_encoder
from pocketquery.server.objectives import build_objective, objective_class
from pocketquery.server.pretraining.held_out import HeldOut, hold_out
from pocketquery.server.pretraining.mixture import Part
from pocketquery.server.pretraining.pretrain_command import EncoderOptions, TextOptions

__all__ = [
    "begin_with_counts",
    "make_encoder",
    "make_parts",
    "open_sources",
    "parse_objectives",
    "parse_options",
]

_KINDS: tuple[Kind, ...] = get_args(Kind)


def parse_objectives(text: str) -> dict[str, float]:
    """``"gur=1,auto_mlm=0.5"`` as weights by name; a name alone weighs 1.

    Raises:
        InvalidInputError: an unknown objective, one named twice, or a weight that is no finite
            number; whether it is above 0 is for ``Part`` to say.
    """
    weights: dict[str, float] = {}
    for entry in text.split(","):
        name, _, weight = (part.strip() for part in entry.partition("="))
        objective_class(name)
        if name in weights:
            raise InvalidInputError(f"the objective {name} is named twice; expected once")
        try:
            weights[name] = float(weight or 1)
        except ValueError:
            weights[name] = math.nan
        if not math.isfinite(weights[name]):
            raise InvalidInputError(
                f'the weight of {name} is "{weight}"; expected a finite number, as in '
                "gur=1,auto_mlm=0.5"
            )
    return weights


def parse_options(settings: Sequence[str], objectives: Sequence[str]) -> dict[str, dict[str, str]]:
    """``["gur.temperature=0.1"]`` as options by objective.

    Raises:
        InvalidInputError: not of this form, or of an objective that is not trained.
    """
    options: dict[str, dict[str, str]] = {name: {} for name in objectives}
    for setting in settings:
        place, equals, value = setting.partition("=")
        name, dot, option = place.partition(".")
        if not (equals and dot and option):
            raise InvalidInputError(
                f'--set is "{setting}"; expected OBJECTIVE.OPTION=VALUE, as in gur.temperature=0.1'
            )
        if name not in options:
            raise InvalidInputError(
                f'--set {setting}: "{name}" is not trained; expected {", ".join(options)}'
            )
        options[name][option] = value
    return options


def open_sources(
    texts: TextOptions, options: Mapping[str, Mapping[str, str]]
) -> dict[Kind, Source]:
    """The sources that were named, by kind.

    Args:
        texts: the places, and how they are read.
        options: of :func:`parse_options`; a ``user_role`` among them is one of the sessions' own.

    Raises:
        InvalidInputError: none was named, or several stores of a kind.
        CorpusError: a file cannot be read.
    """
    reading = ReadOptions(
        lang=texts.lang,
        sentence_lines=texts.sentence_lines,
        rename=not any(chosen.get("user_role") for chosen in options.values()),
    )
    named = {kind: getattr(texts, kind) for kind in _KINDS if getattr(texts, kind)}
    if not named:
        known = ", ".join(f"--{kind}" for kind in _KINDS)
        raise InvalidInputError(f"nothing to learn from; expected one or more of {known}")
    return {kind: _source(paths, kind, reading) for kind, paths in named.items()}


def _source(paths: Sequence[str], kind: Kind, reading: ReadOptions) -> Source:
    if len(paths) == 1:
        return open_source(paths[0], kind, reading)
    if any(Path(path).is_dir() for path in paths):
        raise InvalidInputError(
            f"--{kind} names several places and a store among them; expected raw files, or one "
            "store (pocketquery mine store makes one of several files)"
        )
    return GroupList(list(read_all(paths, kind, reading)), kind)


def make_encoder(
    options: EncoderOptions, sources: Sequence[Source], work: Path, seed: int
) -> SentenceEncoder:
    """The encoder to start from: a model, or a new one in a preset's shape.

    Args:
        options: a preset or a model, and what goes with a preset.
        sources: a new vocabulary is trained on the largest.
        work: the run's folder, where that vocabulary is kept.
        seed: of weights and vocabulary.

    Raises:
        InvalidInputError: options that do not go together.
        UnknownModelError: no such model or tokenizer.
    """
    if options.init in PRESETS:
        return new_encoder(
            options.init,
            _tokenizer(options, sources, work, seed),
            pooling=options.pooling or "mean",
            max_length=options.max_length,
            seed=seed,
        )
    unusable = [f"--{name}" for name in ("tokenizer", "vocabulary") if getattr(options, name)]
    if options.table == "cooccurrence":
        unusable.append("--table cooccurrence")
    if unusable:
        raise InvalidInputError(
            f"{unusable[0]} goes with a preset ({', '.join(PRESETS)}); "
            f'--init is "{options.init}", which brings its own'
        )
    encoder = SentenceEncoder.load(options.init, pooling=options.pooling)
    # A head was trained for other vectors than those that are about to come.
    encoder.head = None
    encoder.max_length = min(options.max_length, encoder.max_length)
    return encoder


def begin_with_counts(
    options: EncoderOptions,
    encoder: SentenceEncoder,
    parts: Sequence[Part],
    sources: Sequence[Source],
    work: Path,
    seed: int,
) -> None:
    """A new encoder begins with what is counted in the largest source, unless it is told not to.

    Args:
        options: ``table`` and ``init``.
        encoder: of :func:`make_encoder`; a model is left as it is.
        parts: whose MLM heads get their biases.
        sources: what is trained on.
        work: the run's folder, where the table is stored.
        seed: of the table.
    """
    if options.init not in PRESETS or options.table == "random":
        return
    largest = max(sources, key=len)
    texts = (" ".join(largest[row].texts) for row in range(len(largest)))
    heads = [part.objective for part in parts]
    made_of = {
        "texts": largest.fingerprint,
        "tokenizer": tokenizer_fingerprint(encoder.tokenizer),
        "width": encoder.backbone.get_input_embeddings().weight.shape[1],
        "seed": seed,
    }
    cache = _cache_path(work, "table-{}.safetensors", made_of)
    begin_with_cooccurrence(encoder, heads, texts, seed=seed, cache=cache)


def _cache_path(work: Path, name: str, made_of: Mapping[str, Any]) -> Path:
    """Where in ``work`` that is kept which was made of just this: a hash of it is in the name.

    A run that goes on finds it again. One with other texts or settings makes its own beside it, and
    does not take from the first what that could not make again to the same bits elsewhere.
    """
    described = json.dumps(made_of, sort_keys=True)
    return work / name.format(sha256_bytes(described.encode())[:32])


def _tokenizer(options: EncoderOptions, sources: Sequence[Source], work: Path, seed: int) -> Any:
    from pocketquery.server.corpus.new_tokenizer import TokenizerConfig, train_tokenizer
    from pocketquery.server.modeling.loading import load_tokenizer

    name: str | Path | None = options.tokenizer
    if not name:
        config = TokenizerConfig(
            kind=options.vocabulary_kind, vocabulary=options.vocabulary, seed=seed
        )
        largest = max(sources, key=lambda s: int(s.lengths().sum()))
        place = _cache_path(work, "tokenizer-{}", {"texts": largest.fingerprint, **asdict(config)})
        if not (place / "tokenizer.json").is_file():
            return train_tokenizer(largest, place, config)
        name = place
    return load_tokenizer(name)


def make_parts(
    encoder: SentenceEncoder,
    sources: dict[Kind, Source],
    weights: dict[str, float],
    options: dict[str, dict[str, str]],
    held_out: int,
    seed: int,
) -> tuple[list[Part], HeldOut]:
    """The parts, and texts held out of their sources.

    Args:
        encoder: that is trained.
        sources: by kind; an objective takes the one it prefers.
        weights: by objective.
        options: of the objectives' configurations, by objective.
        held_out: texts to hold out, of all sources together.
        seed: of the objectives' heads.

    Raises:
        InvalidInputError: no source of a kind that an objective can learn from, or an option it
            has not.
    """
    torch.manual_seed(seed)
    splits = {kind: hold_out(source, held_out // len(sources)) for kind, source in sources.items()}
    parts = []
    for name, weight in weights.items():
        objective = build_objective(name, encoder, options[name])
        kind = next((kind for kind in objective.kinds if kind in splits), None)
        if kind is None:
            known = ", ".join(f"--{kind}" for kind in objective.kinds)
            raise InvalidInputError(f"{name} has nothing to learn from; expected {known}")
        parts.append(Part(objective, splits[kind].source, weight))
    return parts, HeldOut.together(one.held_out for one in splits.values())
