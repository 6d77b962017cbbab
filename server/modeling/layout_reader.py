"""Reading what sentence-transformers of any version writes around a Hugging Face model.

Each file either means here what it means to sentence-transformers, or is refused by name: nothing
that changes a vector is passed over. A folder without ``modules.json`` is a plain Hugging Face
encoder, pooled as sentence-transformers pools it: by the mean, a causal language model by its last
token.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import nn

from pocketquery.sdk.errors import (
    ArtifactNotFoundError,
    CorruptArtifactError,
    UnknownModelError,
)
from pocketquery.sdk.validation import Rule, check, optional, whole
from pocketquery.server.modeling.folder_json import (
    BOOLEAN,
    OBJECT,
    TEXT,
    check_whole_file,
    field,
    first_line,
    read_json,
    read_object,
)
from pocketquery.server.modeling.layout import ACTIVATIONS, Layout, Normalize

__all__ = ["read_layout"]

_MODULES, _PROMPTS, _OURS = "modules.json", "config_sentence_transformers.json", "pocketquery.json"

# The transformer's file has one of these names, by the version; the first that holds something.
_TRANSFORMER_FILES = tuple(
    f"sentence_{kind}_config.json"
    for kind in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
# What the file may hold without changing a vector here, and with which values.
_TRANSFORMER_DEFAULTS: Mapping[str, Sequence[object]] = {
    "transformer_task": ("feature-extraction",),
    "module_output_name": ("token_embeddings",),
    "processing_kwargs": ({}, None),
    "tokenizer_name_or_path": (None,),
}
_ONLY_TEXT = {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}
_LIMITS = ("max_seq_length", "do_lower_case")
_ARGUMENTS = (
    *("model_kwargs", "processor_kwargs", "config_kwargs"),
    *("model_args", "tokenizer_args", "config_args"),  # older
)
_IGNORED_FIELDS = ("backend", "cache_dir", "unpad_inputs")  # where and how fast, not what
_HARMLESS_ARGUMENTS = ("trust_remote_code", "attn_implementation", "add_pooling_layer", "use_fast")

_PREFIX = "pooling_mode_"
_LEGACY_POOLINGS = {  # by the names of older files
    "cls_token": "cls",
    "max_tokens": "max",
    "mean_tokens": "mean",
    "mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "weightedmean_tokens": "weightedmean",
    "lasttoken": "lasttoken",
}
_POOLINGS = {"mean": "mean", "cls": "cls", "lasttoken": "eos"}

_DOCUMENT_PROMPTS = ("document", "passage", "corpus")  # the first that is not empty

_LIST = Rule(lambda value: isinstance(value, list) and len(value) > 0, "a list of modules")


def read_layout(folder: Path, pooling: str | None = None) -> Layout:
    """Read what stands around the transformer in ``folder``.

    Args:
        folder: of a model.
        pooling: instead of the folder's own, which is then not read.

    Raises:
        UnknownModelError: something that this class does not reproduce, or code of the folder's
            own; names the file and what it says.
        CorruptArtifactError: a file is damaged, or a value in it is of another kind.
        ArtifactNotFoundError: a file of a Pooling or Dense module is missing.
    """
    ours = _read_ours(folder / _OURS)
    if not (folder / _MODULES).exists():
        _check_no_template(folder)
        return Layout(pooling=pooling or _plain_pooling(folder), pocketquery=ours)
    chain = _read_chain(folder)
    transformer, pooling_place = chain[0][1], chain[1][1]
    include_prompt = True
    if pooling is None:
        pooling, include_prompt = _read_pooling(pooling_place / "config.json")
    normalized = [kind for kind, _ in chain if kind != "Dropout"][-1] == "Normalize"
    prompts, default = _read_prompts(folder / _PROMPTS, normalized=normalized)
    if not include_prompt and any(prompts.values()):
        raise UnknownModelError(
            f'{pooling_place / "config.json"} says "include_prompt": false, so that the tokens of '
            f"the prompts in {_PROMPTS} are not pooled; here they are: expected true, or no prompts"
        )
    around = Layout(
        pooling=pooling,
        prompts=prompts,
        default_prompt_name=default,
        head=_read_head(chain[2:]),
        transformer_path=str(transformer.relative_to(folder)),
        pocketquery=ours,
    )
    return _read_transformer(transformer, around)


def _read_ours(path: Path) -> dict[str, Any]:
    ours = read_object(path)
    if path.exists():
        if "space_id" not in ours:
            raise CorruptArtifactError(f'{path} has no "space_id"; copy the model again')
        field(path, ours, "space_id", TEXT)
        field(path, ours, "dimension", whole())
        field(path, ours, "teacher", TEXT)
        for name in ("distillation", "report", "adaptation"):
            field(path, ours, name, OBJECT)
    return ours


def _check_no_template(folder: Path) -> None:
    """sentence-transformers puts every text into a template that a plain folder has."""
    config = folder / "tokenizer_config.json"
    files = [folder / name for name in ("chat_template.jinja", "additional_chat_templates")]
    named = [config] if read_object(config).get("chat_template") else []
    for path in [*named, *(file for file in files if file.exists())]:
        raise UnknownModelError(
            f"{path} has a chat template, which sentence-transformers puts around every text of a "
            f"folder without {_MODULES}, and this does not; remove it, or save the model with "
            "sentence-transformers"
        )


def _plain_pooling(folder: Path) -> str:
    path = folder / "config.json"
    config = read_object(path)
    names = config.get("architectures") or [""]
    causal = str(names[0]).endswith("ForCausalLM") if isinstance(names, list) else False
    return "eos" if causal and config.get("is_causal", True) else "mean"


def _read_chain(folder: Path) -> list[tuple[str, Path]]:
    """Kind and folder of each module, in their order."""
    path = folder / _MODULES
    modules = read_json(path)
    check(str(path), modules, _LIST, CorruptArtifactError)
    chain: list[tuple[str, Path]] = []
    names = list[str]()
    for number, module in enumerate(modules):
        check(f"{path}: module {number}", module, OBJECT, CorruptArtifactError)
        for name in ("name", "type", "path"):
            if name not in module:
                raise CorruptArtifactError(f'{path}: module {number} has no "{name}"')
        names.append(field(path, module, "name", TEXT))
        if names[-1] in names[:-1]:  # sentence-transformers takes the last one's files alone
            raise CorruptArtifactError(
                f"{path}: two modules have the name {names[-1]!r}; expected a name for each"
            )
        name = field(path, module, "type", TEXT)
        place = folder / field(path, module, "path", TEXT)
        kind = str(name).rpartition(".")[2]
        if not name.startswith("sentence_transformers."):
            raise UnknownModelError(
                f'{path} names a module "{name}", code of the folder\'s own, which is never run; '
                "expected modules of sentence-transformers"
            )
        if kind not in ("Transformer", "Pooling", "Dense", "Normalize", "Dropout"):
            raise UnknownModelError(
                f'{path} names a module "{kind}"; supported are Transformer, Pooling, Dense and '
                "Normalize"
            )
        if not place.resolve().is_relative_to(folder.resolve()):
            raise CorruptArtifactError(
                f'{path}: "path" is {module["path"]!r}, expected a place in the folder'
            )
        if kind in ("Transformer", "Pooling", "Dense") and not (place / "config.json").exists():
            raise ArtifactNotFoundError(
                f"{path} names {place / 'config.json'}, which is not there; copy the model again"
            )
        chain.append((kind, place))
    kinds = [kind for kind, _ in chain]
    first = kinds[:2] == ["Transformer", "Pooling"]
    if not first or {"Transformer", "Pooling"} & set(kinds[2:]):
        raise UnknownModelError(
            f"{path} chains {', '.join(kinds)}; supported is a Transformer, a Pooling, and behind "
            "them any Dense and Normalize"
        )
    return chain


def _read_transformer(place: Path, layout: Layout) -> Layout:
    """``layout`` with what the transformer's own file says of length and lower case."""
    for path in (place / name for name in _TRANSFORMER_FILES):
        if config := read_object(path):
            break
    else:
        return layout
    known = (*_LIMITS, *_ARGUMENTS, *_IGNORED_FIELDS, "modality_config")
    _check_options(path, config, (*known, *_TRANSFORMER_DEFAULTS))
    for name, values in _TRANSFORMER_DEFAULTS.items():
        if name in config and config[name] not in values:
            raise _unsupported(path, name, config[name], values[0])
    modalities = field(path, config, "modality_config", OBJECT, _ONLY_TEXT)
    if modalities != _ONLY_TEXT:
        raise _unsupported(path, "modality_config", modalities, _ONLY_TEXT)
    for name in _ARGUMENTS:
        arguments = field(path, config, name, optional(OBJECT)) or {}
        if strangers := sorted(set(arguments) - set(_HARMLESS_ARGUMENTS)):
            raise _unsupported(path, f"{name}.{strangers[0]}", arguments[strangers[0]], None)
    return replace(
        layout,
        max_length=field(path, config, "max_seq_length", optional(whole(3))),
        max_length_file=path.name,
        lower_case=bool(field(path, config, "do_lower_case", optional(BOOLEAN))),
    )


def _read_pooling(path: Path) -> tuple[str, bool]:
    """The pooling, and whether the prompt's tokens are pooled, too."""
    config = read_object(path)
    if not config:
        raise ArtifactNotFoundError(f"{path} is missing or empty; copy the model again")
    older = [_PREFIX + name for name in _LEGACY_POOLINGS]
    widths = ("embedding_dimension", "word_embedding_dimension")
    _check_options(path, config, (*older, *widths, "pooling_mode", "include_prompt"))
    for name in older:
        field(path, config, name, BOOLEAN)
    for name in widths:
        field(path, config, name, whole())
    named = config.get("pooling_mode")
    if "pooling_mode" in config:
        modes = named if isinstance(named, list) else [named]
    else:
        legacy = [mode for name, mode in _LEGACY_POOLINGS.items() if config.get(_PREFIX + name)]
        modes = legacy or ["mean"]
    if len(modes) != 1 or not isinstance(modes[0], str) or modes[0] not in _POOLINGS:
        raise UnknownModelError(
            f"{path} pools by {' and '.join(map(str, modes)) or 'nothing'}; supported is one of "
            f"{', '.join(_POOLINGS)}"
        )
    return _POOLINGS[modes[0]], bool(field(path, config, "include_prompt", BOOLEAN, True))


def _read_prompts(path: Path, *, normalized: bool) -> tuple[dict[str, str], str | None]:
    """The prompts by name, and the name of the one for texts that are no query or document."""
    config = read_object(path)
    kind = field(path, config, "model_type", TEXT, "SentenceTransformer")
    if kind != "SentenceTransformer":
        raise _unsupported(path, "model_type", kind, "SentenceTransformer")
    if config.get("truncate_dim") is not None:
        raise _unsupported(path, "truncate_dim", config["truncate_dim"], None)
    similarity = field(path, config, "similarity_fn_name", optional(TEXT))
    # Of vectors of unit length, dot product and distance rank as the cosine does.
    if similarity not in (None, "cosine", *(("dot", "euclidean") if normalized else ())):
        raise UnknownModelError(
            f'{path} says "similarity_fn_name": "{similarity}" of vectors of any length; here '
            "vectors have unit length and are ranked by their cosine, which is another order. Say "
            '"cosine" there if that is wanted, or take a model that was trained for it'
        )
    texts = field(path, config, "prompts", optional(OBJECT)) or {}
    for name in texts:
        field(path, texts, name, optional(TEXT))
    prompts: dict[str, str] = {name: text or "" for name, text in texts.items()}
    default: str | None = field(path, config, "default_prompt_name", optional(TEXT))
    documents = [prompts[name] for name in _DOCUMENT_PROMPTS if prompts.get(name)]
    if documents:
        prompts["document"] = documents[0]
    if default is not None:
        if default not in prompts and default not in ("query", "document"):
            raise CorruptArtifactError(
                f'{path}: "default_prompt_name" is "{default}", expected one of its prompts: '
                f"{', '.join(sorted(prompts)) or 'none'}"
            )
        prompts = {"query": "", "document": ""} | prompts  # theirs is not the default one
    return prompts, default


def _read_head(modules: Sequence[tuple[str, Path]]) -> nn.Sequential | None:
    parts: list[nn.Module] = []
    for kind, place in modules:
        if kind == "Dense":
            parts += _read_dense(place)
        elif kind == "Normalize" and not (parts and isinstance(parts[-1], Normalize)):
            parts.append(Normalize())
    if parts and isinstance(parts[-1], Normalize):
        parts.pop()  # that every vector gets
    return nn.Sequential(*parts) if parts else None


def _read_dense(place: Path) -> list[nn.Module]:
    path = place / "config.json"
    config = read_object(path)
    sizes, places = ("in_features", "out_features"), ("module_input_name", "module_output_name")
    _check_options(path, config, (*sizes, *places, "bias", "activation_function"))
    for name in sizes:
        if name not in config:
            raise CorruptArtifactError(f'{path} has no "{name}"; copy the model again')
    for name in places:
        read = field(path, config, name, optional(TEXT)) or "sentence_embedding"
        if read != "sentence_embedding":
            raise _unsupported(path, name, read, "sentence_embedding")
    activation = field(
        path, config, "activation_function", TEXT, "torch.nn.modules.activation.Tanh"
    )
    if activation not in ACTIVATIONS:
        raise UnknownModelError(
            f"{path} uses the activation {activation}; supported are {', '.join(ACTIVATIONS)}"
        )
    rule = whole(1, 1 << 20)
    shape = [field(path, config, name, rule) for name in sizes]
    bias = field(path, config, "bias", BOOLEAN, True)
    state = _read_weights(place)
    expected = {"linear.weight": (shape[1], shape[0])} | (
        {"linear.bias": (shape[1],)} if bias else {}
    )
    actual = {name: tuple(value.shape) for name, value in state.items()}
    if actual != expected:
        raise CorruptArtifactError(
            f"the weights in {place} are {actual}, expected {expected} as {path} says; copy the "
            "model again"
        )
    linear = nn.Linear(shape[0], shape[1], bias=bias)
    linear.load_state_dict({name.removeprefix("linear."): value for name, value in state.items()})
    return [linear, ACTIVATIONS[activation]()]


def _read_weights(place: Path) -> dict[str, torch.Tensor]:
    """A Dense module's tensors; a pickle is read without running what is in it."""
    for path in (place / "model.safetensors", place / "pytorch_model.bin"):
        if not path.exists():
            continue
        check_whole_file(path)
        try:
            if path.suffix == ".safetensors":
                state = load_file(path)
            else:
                state = torch.load(path, map_location="cpu", weights_only=True)
            return {str(name): value.float() for name, value in state.items()}
        except Exception as error:  # each library raises what it likes about somebody's file
            raise CorruptArtifactError(
                f"{path} holds no weights that can be read safely "
                f"({first_line(error)}); copy the model again, or save it with safetensors"
            ) from error
    raise ArtifactNotFoundError(f"{place} has no model.safetensors; copy the model again")


def _check_options(path: Path, config: Mapping[str, object], known: Iterable[str]) -> None:
    """An option of a later version may change the vectors; sentence-transformers takes none that it
    does not know, either."""
    for name in sorted(config.keys() - set(known)):
        raise _unsupported(path, name, config[name], None)


def _unsupported(path: Path, name: str, value: object, expected: object) -> UnknownModelError:
    return UnknownModelError(
        f'{path} says "{name}": {str(value)[:80]!r}, which would change the vectors and is not '
        f"supported; expected {'none' if expected is None else expected}"
    )
