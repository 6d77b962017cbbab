"""The settings of CCP."""

from __future__ import annotations

from dataclasses import dataclass

from pocketquery.server.objectives.options import check_at_least, check_choice, check_share

__all__ = ["CcpConfig"]

_CHOICES = {
    "batch_language": ("mono", "mixed"),
    "denominator": ("2N", "cross"),
    "bn_mode": ("asym", "vanilla", "vanilla_separate", "none"),
    "head_act": ("relu", "none"),
    "pooling": ("encoder", "cls", "mean"),
    "bank": ("language", "shared", "none"),
    "bank_side": ("as_trained", "running"),
}
_LEAST = {
    "window_len": 2,
    "max_length": 4,
    "least_letters": 1,
    "temperature": 1e-4,
    "bn_warmup": 0,
    "dimension": 0,
    "bank_size": 1,
    "bank_warmup": 0,
}


@dataclass(frozen=True)
class CcpConfig:
    """Settings of :class:`Ccp`; the defaults are the paper's where it names any.

    Attributes:
        window_len: W: two sentences at a distance of at most W - 1 are neighbours; 2 means next to
            each other. A radius w, the paper's other way to say it, is W = w + 1.
        batch_language: ``mono``: the loop gives batches of one language; ``mixed``: any.
        max_length: tokens of a sentence, specials included.
        least_letters: sentences with fewer letters and digits are left out, as are repeated ones.
        temperature: tau.
        normalize: contrast cosines; else raw inner products.
        denominator: ``2N``: all other vectors of the batch, and the bank; ``cross``: those of the
            other side, and the bank.
        exclude_other_positives: neighbours of an anchor are never its negatives. The printed
            denominator keeps them.
        same_doc_negatives: sentences of its document outside the window are negatives, as in the
            paper; here they are not by default, for they are about the same matter.
        bn_mode: asym, vanilla, vanilla_separate or none; see :class:`ProjectionHead`.
        bn_momentum: of the running statistics.
        bn_warmup: passes of the first batch that only fill the running statistics, before it
            is trained on.
        head_act: between the norm and the second layer of the head, relu or none.
        dimension: of the contrasted vectors; 0 for the encoder's width.
        pooling: of the token states: the encoder's own, cls or mean. The paper trains cls and
            evaluates means; what ships here is the encoder with its pooling, so that is trained.
        bank: negatives of earlier batches: one bank a ``language`` (the paper's), one ``shared`` by
            all, or ``none``. With batches of 32 and rates of 1e-4 and more every bank we tried
            ended in collapse, and none did not; the paper has batches of 2,048 and 3e-5.
        bank_size: vectors a bank (the paper: 32,768). At learning rates around 3e-4 keep it below
            16 times the batch: older vectors say little about today's encoder.
        bank_warmup: batches after which the bank, which fills meanwhile, begins to count. There is
            no momentum encoder: at first, vectors that all move alike shake off the bank's
            negatives faster than they learn anything, and from random weights that ends in
            collapse. The paper starts from a pretrained model and has none; 0 gives that.
        bank_side: store the contexts as they were contrasted, in whichever mode of the batch norm,
            as the paper does, or always by ``running`` statistics.
        mlm_probability: share of the batches that are masked language modelling instead.
        mask_rate: share of the tokens such a batch predicts.
    """

    window_len: int = 5
    batch_language: str = "mono"
    max_length: int = 64
    least_letters: int = 3
    temperature: float = 0.1
    normalize: bool = True
    denominator: str = "2N"
    exclude_other_positives: bool = True
    same_doc_negatives: bool = False
    bn_mode: str = "asym"
    bn_momentum: float = 0.1
    bn_warmup: int = 20
    head_act: str = "relu"
    dimension: int = 0
    pooling: str = "encoder"
    bank: str = "none"
    bank_size: int = 512
    bank_warmup: int = 200
    bank_side: str = "as_trained"
    mlm_probability: float = 0.5
    mask_rate: float = 0.15

    def __post_init__(self) -> None:
        for name, known in _CHOICES.items():
            check_choice(name, getattr(self, name), known)
        for name, least in _LEAST.items():
            check_at_least(name, getattr(self, name), least)
        check_share("mask_rate", self.mask_rate)
        check_share("bn_momentum", self.bn_momentum)
        if self.mlm_probability:
            check_share("mlm_probability", self.mlm_probability)
