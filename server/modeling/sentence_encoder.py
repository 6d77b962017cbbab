"""One class over any Hugging Face encoder: text in, L2-normalised sentence vectors out."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

from pocketquery.sdk.arrays import Floats
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError
from pocketquery.sdk.files import real_path
from pocketquery.sdk.folders import replace_folder
from pocketquery.sdk.progress import Progress
from pocketquery.server.modeling.device_tokenizer import device_tokenizer
from pocketquery.server.modeling.layout import (
    Layout,
    check_model_replaceable,
    write_layout,
)
from pocketquery.server.modeling.layout_reader import read_layout
from pocketquery.server.modeling.loading import load_backbone, longest_text
from pocketquery.server.modeling.precision import at_least_float32
from pocketquery.server.modeling.resolve import model_name, resolve_model
from pocketquery.server.modeling.space import (
    space_id,
    tokenizer_fingerprint,
    unusual_settings,
    weights_fingerprint,
)
from pocketquery.server.modeling.tokenizer_file import save_tokenizer
from pocketquery.server.modeling.weights import quiet_transformers

__all__ = ["SentenceEncoder", "pool", "to_device"]

OnDevice = TypeVar("OnDevice", torch.Tensor, "SentenceEncoder")


_DEFAULT_MAX_LENGTH = 256


class SentenceEncoder(nn.Module):
    """Transformer, pooling, optional head, L2 normalisation: teacher, document encoder, student.

    Args:
        backbone: a Hugging Face encoder whose first output is the token states.
        tokenizer: its fast tokenizer.
        pooling: ``"mean"`` (over real tokens), ``"cls"`` (the first token) or ``"eos"`` (the last).
        head: linear layers with activations after the pooling, or None.
        prompts: texts put before queries and documents, keys ``"query"`` and ``"document"``.
        default_prompt_name: of the prompt that :meth:`encode` puts before texts by itself.
        max_length: tokens a text is truncated to, specials included.
        space: ``{"space_id": ..., ...}`` of a distilled student; None for a teacher, whose
            space id is computed from its content.
        name: what reports call the model.
    """

    backbone: Any  # a transformers PreTrainedModel, whose methods nn.Module does not declare

    def __init__(
        self,
        backbone: Any,
        tokenizer: Any,
        *,
        pooling: str = "mean",
        head: nn.Sequential | None = None,
        prompts: Mapping[str, str] | None = None,
        default_prompt_name: str | None = None,
        max_length: int = _DEFAULT_MAX_LENGTH,
        space: Mapping[str, Any] | None = None,
        name: str = "",
    ) -> None:
        super().__init__()
        if pooling not in ("mean", "cls", "eos"):
            raise InvalidInputError(f'pooling is "{pooling}"; expected "mean", "cls" or "eos"')
        self.backbone = backbone
        self.tokenizer = tokenizer
        self.pooling = pooling
        self.head = head
        self.prompts = dict(prompts or {})
        self.default_prompt_name = default_prompt_name
        self.max_length = max_length
        self.space = dict(space or {})
        self.name = name
        self.eval()

    @classmethod
    def load(
        cls,
        name_or_path: str | Path,
        *,
        device: str = "cpu",
        pooling: str | None = None,
        attention: str | None = None,
    ) -> SentenceEncoder:
        """Load a Hugging Face folder, a sentence-transformers folder, a Hub name or ``"demo"``.

        Args:
            name_or_path: see :func:`pocketquery.server.modeling.resolve_model`.
            device: torch device.
            pooling: overrides what the folder says.
            attention: ``"sdpa"`` or ``"eager"``; None for the faster one that the model has.

        Raises:
            UnknownModelError: not found, or not an encoder this class can reproduce.
            InvalidInputError: this machine has no such device.
        """
        folder = resolve_model(name_or_path)
        layout = read_layout(folder, pooling)
        place = folder / layout.transformer_path
        backbone = load_backbone(folder, place, attention=attention, lower_case=layout.lower_case)
        encoder = cls(
            backbone.model,
            backbone.tokenizer,
            pooling=layout.pooling,
            head=layout.head,
            prompts=layout.prompts,
            default_prompt_name=layout.default_prompt_name,
            max_length=longest_text(place, layout, backbone),
            space=layout.pocketquery,
            name=model_name(name_or_path),
        )
        _check_widths(folder, encoder)
        if encoder.space:  # a student is what its device will be
            encoder = encoder.with_device_ids()
        return to_device(encoder, device)

    def save(self, path: str | Path, *, more: Mapping[str, bytes] = MappingProxyType({})) -> None:
        """Write the sentence-transformers layout; an older model there is replaced in one step.

        Args:
            path: the folder.
            more: further files by their place in it.

        Raises:
            InvalidInputError: ``path`` holds something that is not such a model.
            OSError: the disk is full or not writable; ``path`` is as it was before.
        """
        check_model_replaceable(Path(path))
        with replace_folder(path) as folder:
            with quiet_transformers():
                self.backbone.save_pretrained(folder)
            # Padding and truncation are the last call's, not the model's: they are not saved.
            self.tokenizer.backend_tokenizer.no_padding()
            self.tokenizer.backend_tokenizer.no_truncation()
            save_tokenizer(self.tokenizer, folder)
            layout = Layout(
                pooling=self.pooling,
                max_length=self.max_length,
                prompts=self.prompts,
                default_prompt_name=self.default_prompt_name,
                head=self.head,
                pocketquery=self.space,
            )
            write_layout(folder, layout, self.hidden_size)
            for name, data in more.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(data)

    def check_kept(self, path: str | Path) -> None:
        """Make sure that what is about to be written to ``path`` does not replace this encoder.

        Raises:
            InvalidInputError: it was loaded from there.
        """
        origin = self.backbone.name_or_path
        if origin and real_path(path) in (real_path(origin), *real_path(origin).parents):
            raise InvalidInputError(
                f"{path} holds {self.name}, which is only read; name another place for what comes "
                "of it"
            )

    def with_device_ids(self) -> SentenceEncoder:
        """This encoder, its weights shared, with the ids that a device makes of texts.

        Raises:
            UnknownModelError: a tokenizer that no device reads, or its file is not there.
            CorruptArtifactError: that file is damaged.
        """
        encoder = copy.copy(self)
        encoder.tokenizer = device_tokenizer(self.tokenizer)
        return encoder

    @property
    def hidden_size(self) -> int:
        """Width of the token states."""
        return int(self.backbone.config.hidden_size)

    @property
    def dimension(self) -> int:
        """Width of the vectors."""
        widths = [m.out_features for m in self.head or () if isinstance(m, nn.Linear)]
        return widths[-1] if widths else self.hidden_size

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    @property
    def space_id(self) -> str:
        """The space the vectors live in: a student's teacher's, else computed from content."""
        return str(self.space["space_id"]) if self.space else self._own_space_id

    @property
    def content_id(self) -> str:
        """Names what computes the vectors: a teacher's own space id, but for a student, which
        names its teacher's space, a hash of what it is itself."""
        return self._hashed() if self.space else self._own_space_id

    @cached_property
    def _own_space_id(self) -> str:
        return self._hashed()

    def _hashed(self) -> str:
        return space_id(
            weights_sha256=weights_fingerprint(self.state_dict()),
            dimension=self.dimension,
            pooling=self.pooling,
            normalize=True,
            prompts=self.prompts,
            tokenizer_sha256=tokenizer_fingerprint(self.tokenizer),
            settings=unusual_settings(self.backbone.config, self.head or ()),
        )

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Vectors of a batch of token ids.

        Args:
            input_ids: int64 (batch, length).
            attention_mask: int64 (batch, length), 1 on real tokens.

        Returns:
            float32 or wider (batch, dimension), rows of unit length.
        """
        vectors = self.pooled(input_ids, attention_mask)
        if self.head is not None:
            vectors = self.head(vectors)
        return nn.functional.normalize(at_least_float32(vectors), dim=-1)

    def states(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Token states of the last layer, float (batch, length, hidden_size)."""
        states: torch.Tensor = self.backbone(input_ids=input_ids, attention_mask=attention_mask)[0]
        return states

    def pooled(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """The pooled states, float (batch, hidden_size), before head and normalisation."""
        return pool(self.states(input_ids, attention_mask), attention_mask, self.pooling)

    def encode(
        self,
        texts: Sequence[str],
        *,
        prompt_name: str | None = None,
        batch_size: int = 64,
        show_progress_bar: bool = False,
    ) -> Floats:
        """Encode texts; float32 (len(texts), dimension), rows of unit length, in input order.

        Batches hold texts of like length, so little time goes into padding. Without ``prompt_name``
        the model's default prompt goes before them, if it has one.

        Raises:
            InvalidInputError: ``texts`` is a single string, or ``prompt_name`` is unknown.
        """
        if isinstance(texts, str):
            raise InvalidInputError("texts is a single string; expected a list of strings")
        prefix = self._prompt(prompt_name)
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        with Progress(len(texts), "encode", "text", show=show_progress_bar) as bar:
            for start in range(0, len(order), batch_size):
                rows = order[start : start + batch_size]
                batch = self.tokenize([prefix + texts[i] for i in rows]).to(self.device)
                with torch.inference_mode():
                    vectors[rows] = self(batch["input_ids"], batch["attention_mask"]).cpu().numpy()
                bar.update(len(rows))
        return vectors

    def encode_query(self, texts: Sequence[str], **options: Any) -> Floats:
        """:meth:`encode` with the query prompt, if the model has one."""
        return self.encode(texts, prompt_name=self._if_known("query"), **options)

    def encode_document(self, texts: Sequence[str], **options: Any) -> Floats:
        """:meth:`encode` with the document prompt, if the model has one."""
        return self.encode(texts, prompt_name=self._if_known("document"), **options)

    def tokenize(self, texts: Sequence[str]) -> Any:
        """Padded ``input_ids`` and ``attention_mask``, int64 (batch, length)."""
        return self.tokenizer(
            list(texts),
            padding=True,
            truncation=True,
            max_length=self.max_length,
            return_tensors="pt",
            return_token_type_ids=False,
        )

    def _if_known(self, name: str) -> str | None:
        return name if name in self.prompts else None

    def _prompt(self, name: str | None) -> str:
        name = self.default_prompt_name if name is None else name
        if name is None:
            return ""
        if name not in self.prompts:
            known = ", ".join(sorted(self.prompts)) or "none"
            raise InvalidInputError(f'unknown prompt_name "{name}"; the model has: {known}')
        return self.prompts[name]


def to_device(what: OnDevice, device: str) -> OnDevice:
    """A module or tensor, on ``device``.

    Raises:
        InvalidInputError: this machine has no such device.
    """
    try:
        return what.to(device)
    except (RuntimeError, AssertionError) as error:  # torch raises either
        raise InvalidInputError(
            f'the device "{device}" cannot be used ({str(error).splitlines()[0]}); expected '
            '"cpu", or an accelerator that this machine and this build of torch have'
        ) from error


def pool(states: torch.Tensor, mask: torch.Tensor, pooling: str) -> torch.Tensor:
    """Pool token states (batch, length, width) to (batch, width); padding never counts."""
    if pooling in ("cls", "eos"):
        places = torch.arange(1, states.shape[1] + 1, device=states.device)
        order = places if pooling == "eos" else -places
        only_real = order.masked_fill(mask == 0, -len(places) - 1)  # padding may be on either side
        return states[torch.arange(len(states), device=states.device), only_real.argmax(dim=1)]
    weights = mask.unsqueeze(-1).to(states.dtype)  # (batch, length, 1)
    return (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1.0)


def _check_widths(folder: Path, encoder: SentenceEncoder) -> None:
    """Each layer of the head takes what comes before it, and the space has as many dimensions."""
    width = encoder.hidden_size
    for module in encoder.head or ():
        if isinstance(module, nn.Linear):
            if module.in_features != width:
                raise CorruptArtifactError(
                    f"{folder} has a Dense module that takes {module.in_features} dimensions, "
                    f"behind {width}; expected its in_features to be these"
                )
            width = module.out_features
    if encoder.space.get("dimension", width) != width:
        raise CorruptArtifactError(
            f'{folder / "pocketquery.json"}: "dimension" is {encoder.space["dimension"]}, but the '
            f"vectors have {width}; copy the model again"
        )
