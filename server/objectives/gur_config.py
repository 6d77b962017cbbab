"""The settings of GUR, and what its variants leave out."""

from __future__ import annotations

from dataclasses import dataclass

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.objectives.options import check_at_least, check_choice, check_share
from pocketquery.server.objectives.shared.span_masking import LENGTHS

__all__ = ["HIGHEST_RATE", "VARIANTS", "GurConfig"]

VARIANTS = ("full", "no_lm", "no_cl", "no_lcs")
"""Each says what is left out; the paper's "GUR-LM", "GUR-CL" and "GUR-LCS" mean the same."""

HIGHEST_RATE = 0.29
"""Of the shares that ``rate_jitter`` draws."""


@dataclass(frozen=True)
class GurConfig:
    """Settings of :class:`Gur`; the defaults are the paper's, its depth and lengths apart.

    Attributes:
        variant: ``"full"``; ``"no_lm"`` (contrast alone), ``"no_cl"`` (infilling alone);
            ``"no_lcs"``: from documents, any sentence is paired, whatever the two texts share
            (pairs are taken as they are: mine those without LCS too).
        alpha: weight of the contrast beside the language model's loss.
        temperature: of the contrast.
        vector_size: numbers of the exported vector.
        pooling: ``"encoder"`` (the one it has), ``"cls"`` (the paper's), ``"eos"`` (as the released
            code) or ``"mean"``; it ships. From masked language modelling or random weights,
            ``"cls"`` stays at the loss of equal vectors for some hundred steps first.
        cl_input: the contrast compares ``"masked"`` or ``"clean"`` texts (a second forward pass).
        mask_rate: share of the tokens that is hidden.
        rate_jitter: draw that share from 10 to 29 % anew for every text, as the released code.
        span_lengths: ``"hump"`` or ``"geometric"``.
        title_share: share of the titled documents drawn for the extra task, to write the title of
            the content (language model only); the paper runs it as a task of its own.
        decoder_layers: the decoder's depth (the paper's is the encoder's own, 8).
        dropout: of the decoder.
        max_gap: from documents without a title, sentences at most so far apart are paired.
        max_length: tokens of a text, specials included.
    """

    variant: str = "full"
    alpha: float = 1.0
    temperature: float = 0.1
    vector_size: int = 128
    pooling: str = "encoder"
    cl_input: str = "masked"
    mask_rate: float = 0.15
    rate_jitter: bool = False
    span_lengths: str = "hump"
    title_share: float = 0.0
    decoder_layers: int = 2
    dropout: float = 0.1
    max_gap: int = 100
    max_length: int = 64

    def __post_init__(self) -> None:
        check_choice("variant", self.variant, VARIANTS)
        check_choice("pooling", self.pooling, ("encoder", "cls", "mean", "eos"))
        check_choice("cl_input", self.cl_input, ("masked", "clean"))
        check_choice("span_lengths", self.span_lengths, LENGTHS)
        check_share("mask_rate", self.mask_rate)
        check_at_least("vector_size", self.vector_size, 1)
        check_at_least("decoder_layers", self.decoder_layers, 1)
        check_at_least("max_gap", self.max_gap, 1)
        check_at_least("max_length", self.max_length, 8)
        for name, value in (("temperature", self.temperature), ("alpha", self.alpha)):
            if not value > 0:
                raise InvalidInputError(
                    f'{name} is {value}; expected above 0 (no contrast: variant "no_cl")'
                )
        for name, value in (("dropout", self.dropout), ("title_share", self.title_share)):
            if not 0 <= value <= 1:
                raise InvalidInputError(f"{name} is {value}; expected from 0 to 1")
        if self.variant == "no_lm" and self.title_share:
            raise InvalidInputError(
                f"title_share is {self.title_share}, but writing titles needs the language model, "
                'which variant "no_lm" leaves out; set it to 0'
            )
