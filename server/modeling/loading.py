"""Tokenizer and weights of a Hugging Face folder: all that its configuration names, or an error.

transformers reads such a folder with more patience than a search engine can have: what the weights
lack is drawn at random (``weights.py``), code beside them may run, a vocabulary may have more ids
than the table has rows. Here each of these is refused, and whatever the libraries raise becomes one
line that names the file.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn
from transformers import MODEL_MAPPING, AutoConfig, AutoTokenizer

from pocketquery.sdk.errors import CorruptArtifactError, UnknownModelError
from pocketquery.sdk.validation import Rule, check, one_of, optional, whole
from pocketquery.server.modeling.folder_json import (
    TEXT,
    check_whole_file,
    field,
    read_object,
    refusing,
)
from pocketquery.server.modeling.layout import Layout
from pocketquery.server.modeling.sentencepiece_tokenizer import as_written, check_sentencepiece
from pocketquery.server.modeling.weights import load_weights

__all__ = ["Backbone", "load_backbone", "load_tokenizer", "longest_text"]

_CONFIG, _TOKENIZER_CONFIG = "config.json", "tokenizer_config.json"
_ADAPTER = "adapter_config.json"
_MAY_NAME_CODE = (_CONFIG, _TOKENIZER_CONFIG, "processor_config.json", "preprocessor_config.json")
_TOKENIZER_JSON = (_TOKENIZER_CONFIG, "special_tokens_map.json", "added_tokens.json")

_POSITIONS = ("absolute", "relative_key", "relative_key_query")
_KINDS_OF_POSITIONS = {"position_embedding_type": "absolute", "rope_parameters": None}
_MOST_LAYERS = 1000  # each is made before the weights are looked at
_NO_LIMIT = 1 << 20  # tokens
_PROBE_LENGTH = 64
_PROBE_TEXTS = ("a", "two texts of which one is longer " * 8)
_UNKNOWN = "𓀀 𒀀"  # in no vocabulary but of bytes: what stands for it must be there


@dataclass(frozen=True)
class Backbone:
    """A loaded transformer: its model, float32 and ready for inference, and its fast tokenizer."""

    model: Any
    tokenizer: Any


def load_backbone(
    folder: Path, place: Path, *, attention: str | None, lower_case: bool = False
) -> Backbone:
    """Load what is in ``place``.

    Args:
        folder: of the whole model, as errors name it.
        place: of its transformer.
        attention: ``"sdpa"`` or ``"eager"``; None for the faster one that the model has.
        lower_case: texts are lowercased, whatever the tokenizer's own normaliser does.

    Raises:
        UnknownModelError: no text encoder, or one with an adapter, code of its own, a vocabulary
            larger than its table, or an architecture that needs more than token ids.
        CorruptArtifactError: a file is damaged, or the weights are not those of ``config.json``.
    """
    _check_files(folder, place)
    with refusing(place / _CONFIG, "cannot be loaded as a Hugging Face encoder"):
        config = AutoConfig.from_pretrained(place, trust_remote_code=False)
        _check_kinds(place / _CONFIG, type(config)())
    kind = _model_class(place, config)
    tokenizer = _load_tokenizer(place, lower_case=lower_case)
    model = load_weights(place, config, kind, attention)
    _check_vocabulary(place, tokenizer, model)
    _check_runs(place, tokenizer, model)
    return Backbone(model, tokenizer)


def load_tokenizer(name: str | Path) -> Any:
    """The fast tokenizer alone of a folder or Hub name.

    Raises:
        UnknownModelError: there is none.
    """
    check_sentencepiece(name)
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, use_fast=True, trust_remote_code=False)
        return as_written(tokenizer, name)
    except (OSError, ValueError) as error:
        raise UnknownModelError(
            f"{name} cannot be loaded as a tokenizer ({str(error).splitlines()[0]}); "
            "expected a folder or Hub name, or none to train a vocabulary on the texts"
        ) from error


def longest_text(place: Path, layout: Layout, backbone: Backbone) -> int:
    """How many tokens of a text are encoded: what the folder says, the tokenizer and the positions.

    Raises:
        CorruptArtifactError: the folder says more than there are positions, or says no number.
    """
    rows, usable = _positions(backbone.model)
    if layout.max_length is not None:
        if rows is not None and layout.max_length > rows:
            raise CorruptArtifactError(
                f'{place / layout.max_length_file}: "max_seq_length" is {layout.max_length}, but '
                f"{_CONFIG} has {rows} positions; expected no more than these"
            )
        return min(layout.max_length, usable)
    named = f"{place / _TOKENIZER_CONFIG}: model_max_length"
    # Where nobody set it, transformers says 1e30.
    check(named, int(backbone.tokenizer.model_max_length), whole(3), CorruptArtifactError)
    configured = int(getattr(backbone.model.config, "max_position_embeddings", None) or -1)
    limits = [usable, int(backbone.tokenizer.model_max_length)]
    return min(limits + ([configured] if configured > 0 else []))  # -1: any length


def _check_files(folder: Path, place: Path) -> None:
    """Refuse what no library should read, before one reads the folder."""
    if not (place / _CONFIG).is_file():
        raise UnknownModelError(
            f"{folder} has no {(place / _CONFIG).relative_to(folder)}; expected config.json, "
            "model.safetensors and tokenizer files"
        )
    for adapter in (place / _ADAPTER, folder / _ADAPTER):
        if adapter.exists():
            raise UnknownModelError(
                f"{adapter} belongs to an adapter (LoRA, say) beside the base weights, which would "
                "be left out; merge it into them (merge_and_unload) and save the model again"
            )
    for name in _MAY_NAME_CODE:
        if read_object(place / name).get("auto_map"):
            raise UnknownModelError(
                f'{place / name} names code of the folder\'s own ("auto_map"), which is never run; '
                "take a model whose architecture transformers has itself"
            )
    path = place / _CONFIG
    config = read_object(path)
    if "model_type" not in config:  # transformers would guess it from the folder's name
        raise CorruptArtifactError(f'{path} has no "model_type"; copy the model again')
    field(path, config, "model_type", TEXT)
    for name in ("num_hidden_layers", "num_layers", "n_layers", "n_layer"):
        field(path, config, name, whole(1, _MOST_LAYERS))
    for name in _TOKENIZER_JSON:
        read_object(place / name)
    field(
        place / _TOKENIZER_CONFIG,
        read_object(place / _TOKENIZER_CONFIG),
        "model_max_length",
        optional(Rule(_is_length, whole(3).expected)),
    )
    for file in [place / "tokenizer.json", place / "vocab.txt", *sorted(place.glob("*.model"))]:
        if file.exists():
            check_whole_file(file)


def _is_length(value: object) -> bool:
    """Where nobody set one, transformers says 1e30, and some write it so."""
    return whole(3).holds(int(value) if isinstance(value, float) and value.is_integer() else value)


def _check_kinds(path: Path, usual: Any) -> None:
    """Text where the architecture has text, and numbers where it has numbers: what transformers
    does not compare with its own names, it passes over."""
    config = read_object(path)
    for name, value in config.items():
        default = getattr(usual, name, None)
        if None not in (_kind(value), _kind(default)) and _kind(value) != _kind(default):
            raise CorruptArtifactError(
                f'{path}: "{name}" is {value!r}, expected a value such as {default!r}'
            )
    field(path, config, "position_embedding_type", optional(one_of(*_POSITIONS)))
    for name, usual_value in _KINDS_OF_POSITIONS.items():
        if config.get(name, usual_value) not in (usual_value, None) and not hasattr(usual, name):
            raise UnknownModelError(
                f'{path}: "{name}" is {config[name]!r}, which transformers '
                f'{transformers.__version__} does not have for "{usual.model_type}": the vectors '
                "may be others; install the version that wrote the model "
                f"({config.get('transformers_version', 'unnamed')})"
            )


def _kind(value: object) -> str | None:
    """Of a plain value; None for all else."""
    for kind, name in ((bool, "truth"), (str, "text"), (int | float, "number")):
        if isinstance(value, kind):
            return name
    return None


def _model_class(place: Path, config: Any) -> Any:
    """The class that the weights are of."""
    kind = MODEL_MAPPING.get(type(config), None)
    kind = kind[0] if isinstance(kind, tuple) else kind
    takes = inspect.signature(kind.forward).parameters if kind is not None else {}
    if "decoder_input_ids" in takes:
        raise UnknownModelError(
            f'{place / _CONFIG} is of the architecture "{config.model_type}", which has a decoder; '
            "expected an encoder, such as BERT or XLM-R"
        )
    if "input_ids" not in takes or "attention_mask" not in takes:
        raise UnknownModelError(
            f'{place / _CONFIG} is of the architecture "{config.model_type}", which encodes no '
            "text; expected an encoder, such as BERT or XLM-R"
        )
    return kind


def _load_tokenizer(place: Path, *, lower_case: bool) -> Any:
    where = f"the tokenizer of {place} ({_named_there(place)})"
    check_sentencepiece(place)
    with refusing(where, "cannot be loaded"):
        tokenizer = AutoTokenizer.from_pretrained(
            place,
            use_fast=True,
            trust_remote_code=False,
            fix_mistral_regex=False,  # else it warns of every vocabulary above 100,000 pieces
        )
        if not tokenizer.is_fast:
            raise UnknownModelError(
                f"{where} has no fast version; expected one, as a tokenizer.json holds"
            )
        as_written(tokenizer, place)
        if tokenizer.pad_token_id is None:
            raise UnknownModelError(
                f"{where} has no padding token; expected one, without which texts of different "
                "lengths cannot be encoded together"
            )
        if lower_case:
            _lower_case(tokenizer)
        tokenizer([*_PROBE_TEXTS, _UNKNOWN], padding=True, verbose=False)
    return tokenizer


def _named_there(place: Path) -> str:
    """The tokenizer's files, for errors."""
    names = ("tokenizer.json", *_TOKENIZER_JSON, "vocab.txt")
    return ", ".join(name for name in names if (place / name).exists()) or "no tokenizer.json"


def _lower_case(tokenizer: Any) -> None:
    """Lowercase before all else, which changes nothing where the normaliser does so itself."""
    from tokenizers.normalizers import BertNormalizer, Lowercase, Sequence

    backend = tokenizer.backend_tokenizer
    old = backend.normalizer
    if isinstance(old, BertNormalizer):
        if not old.lowercase:
            # In one, which devices read; without the stripping that would follow from lowercasing.
            strip = bool(old.strip_accents)
            backend.normalizer = BertNormalizer(
                clean_text=old.clean_text,
                handle_chinese_chars=old.handle_chinese_chars,
                strip_accents=strip,
                lowercase=True,
            )
            # Without these the class would set the normaliser back when it is loaded again.
            tokenizer.init_kwargs |= {"do_lower_case": True, "strip_accents": strip}
            tokenizer.do_lower_case = True
        return
    parts = list(old) if isinstance(old, Sequence) else [old] if old is not None else []
    if not any(isinstance(part, Lowercase) for part in parts):
        backend.normalizer = Sequence([Lowercase(), *parts])


def _check_vocabulary(place: Path, tokenizer: Any, model: Any) -> None:
    with refusing(place / _CONFIG, "describes no text encoder"):
        rows = int(model.get_input_embeddings().num_embeddings)
        largest = max(tokenizer.get_vocab().values())
    if largest >= rows:
        raise UnknownModelError(
            f"the tokenizer of {place} ({_named_there(place)}) has ids up to {largest}, but the "
            f"table of the weights has {rows} rows ({_CONFIG}: vocab_size); take both from one "
            "model"
        )


def _check_runs(place: Path, tokenizer: Any, model: Any) -> None:
    """Two texts go through, and need nothing but their ids."""
    config, length = place / _CONFIG, min(_positions(model)[1], _PROBE_LENGTH)
    batch = tokenizer(
        list(_PROBE_TEXTS), padding=True, truncation=True, max_length=length, return_tensors="pt"
    )
    with refusing(config, "describes an encoder that does not run"), torch.no_grad():
        inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
        states = model(**inputs)[0]
        shape, width = tuple(states.shape), int(model.config.hidden_size)
        if shape != (*inputs["input_ids"].shape, width):
            raise UnknownModelError(
                f"{config} describes an encoder whose states are {shape}, expected a vector of "
                f"{width} for each token"
            )
        if not bool(torch.isfinite(states).all()):
            raise CorruptArtifactError(
                f"the weights in {place}, with its {_CONFIG}, give values that are not finite; "
                "copy the model again"
            )
        types = batch.get("token_type_ids")
        if types is None or "token_type_ids" not in inspect.signature(model.forward).parameters:
            return
        typed = model(**inputs, token_type_ids=types)[0]
        if not torch.allclose(states, typed, atol=1e-5):
            raise UnknownModelError(
                f'{config} is of the architecture "{model.config.model_type}", whose vectors '
                "depend on token types, which devices do not have; expected an encoder that needs "
                "the ids alone"
            )


def _positions(model: nn.Module) -> tuple[int | None, int]:
    """Rows of the table of positions, None without one, and how many tokens these are enough for.

    RoBERTa and its kin number positions from behind the padding's id.
    """
    for module in model.modules():
        for name in ("position_embeddings", "wpe", "embed_positions"):
            table = getattr(module, name, None)
            if isinstance(table, nn.Embedding):
                padding = getattr(module, "padding_idx", None)
                padding = table.padding_idx if padding is None else padding
                before = padding + 1 if isinstance(padding, int) else getattr(table, "offset", 0)
                return table.num_embeddings, table.num_embeddings - before
    return None, _NO_LIMIT
