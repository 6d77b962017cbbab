"""Writing token by token with GUR's decoder, within a grammar that makes every output readable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives.shared.seq2seq_decoder import DecoderShape, GurDecoder

__all__ = ["Faults", "Grammar", "Written", "faults", "generate"]


@dataclass(frozen=True)
class Written:
    """What was written for one row.

    Attributes:
        tokens: with sentinels, without the end token.
        log_probability: mean over the tokens (the end token too) that the decoder chose itself.
    """

    tokens: list[int]
    log_probability: float


@dataclass(frozen=True)
class Grammar:
    """What may be written next; the bare decoder, without one, may write anything.

    Attributes:
        ordinary: bool (vocabulary,): the tokens of texts.
        closers: sentinels in their order: after each, 1 to ``most_tokens`` ordinary ones. The last
            one ends the text. Empty for a text without sentinels, which the end token ends.
        most_tokens: between two closers, or of the text.
        end: the end token.
    """

    ordinary: torch.Tensor
    closers: tuple[int, ...]
    most_tokens: int
    end: int

    @classmethod
    def of_blanks(
        cls, shape: DecoderShape, encoder: SentenceEncoder, blanks: int, most_tokens: int
    ) -> Grammar:
        """``<x0> span <x1> span ... <x blanks>``."""
        # As many tokens a blank as there are positions for all of them.
        fitting = max(1, (shape.positions - 1) // blanks - 1)
        closers = shape.sentinels[: blanks + 1]
        return cls(_ordinary(shape, encoder), closers, min(most_tokens, fitting), shape.end)

    @classmethod
    def of_text(cls, shape: DecoderShape, encoder: SentenceEncoder, most_tokens: int) -> Grammar:
        """A text and the end token."""
        return cls(_ordinary(shape, encoder), (), min(most_tokens, shape.positions - 1), shape.end)

    def allowed(self, written: Sequence[int]) -> torch.Tensor:
        """Whether each token may come next, bool (vocabulary,)."""
        since = self._since_closer(written)
        following = self.end
        if self.closers:
            seen = sum(token in self.closers for token in written)
            following = self.closers[seen]
            if not seen:  # every target starts with the first sentinel
                since = self.most_tokens
        may = self.ordinary.clone() if since < self.most_tokens else torch.zeros_like(self.ordinary)
        may[following] = since > 0  # nothing is left empty
        return may

    def finished(self, written: Sequence[int]) -> bool:
        """Whether nothing follows."""
        last = self.closers[-1] if self.closers else self.end
        return bool(written) and written[-1] == last

    def _since_closer(self, written: Sequence[int]) -> int:
        for count, token in enumerate(reversed(written)):
            if token in self.closers:
                return count
        return len(written)


@torch.inference_mode()
def generate(
    decoder: GurDecoder,
    encoder: SentenceEncoder,
    memory: torch.Tensor,
    memory_mask: torch.Tensor,
    grammar: Grammar | None,
    *,
    temperature: float = 0.0,
    generator: torch.Generator | None = None,
) -> list[Written]:
    """Write a text for each row of the memory.

    Args:
        decoder: in evaluation mode.
        encoder: whose table it is tied to.
        memory: the encoder's token states (rows, source length, width).
        memory_mask: int64 (rows, source length).
        grammar: what may be written; None for anything up to the end token, as the decoder will.
        temperature: 0 takes the likeliest token.
        generator: of the draws at higher temperatures, on the processor.
    """
    shape = decoder.shape
    rows: list[list[int]] = [[] for _ in range(len(memory))]
    sums, counts = [0.0] * len(rows), [0] * len(rows)
    open_rows = list(range(len(rows)))
    while open_rows and len(rows[open_rows[0]]) < shape.positions:
        inputs = torch.tensor([[shape.start, *rows[row]] for row in open_rows]).to(memory.device)
        states = decoder(inputs, memory[open_rows], memory_mask[open_rows], encoder)
        scores = decoder.logits(states[:, -1], encoder).float().cpu()  # (open rows, vocabulary)
        if grammar is not None:
            allowed = torch.stack([grammar.allowed(rows[row]) for row in open_rows])
            scores = scores.masked_fill(~allowed, -torch.inf)
        scores = scores.log_softmax(dim=-1)
        chosen = _chosen(scores, temperature, generator)
        for row, token, score in zip(open_rows, chosen.tolist(), scores, strict=True):
            rows[row].append(token)
            if float(score[token]) < 0:  # what the grammar leaves no choice in says nothing
                sums[row] += float(score[token])
                counts[row] += 1
        open_rows = [row for row in open_rows if not _finished(rows[row], grammar, shape.end)]
    return [
        Written([t for t in row if t != shape.end], total / max(count, 1))
        for row, total, count in zip(rows, sums, counts, strict=True)
    ]


def _chosen(
    scores: torch.Tensor, temperature: float, generator: torch.Generator | None
) -> torch.Tensor:
    if temperature == 0:
        return scores.argmax(dim=-1)
    chances = (scores / temperature).softmax(dim=-1)
    return torch.multinomial(chances, 1, generator=generator).squeeze(1)


def _finished(written: Sequence[int], grammar: Grammar | None, end: int) -> bool:
    return written[-1] == end if grammar is None else grammar.finished(written)


def _ordinary(shape: DecoderShape, encoder: SentenceEncoder) -> torch.Tensor:
    """The vocabulary without specials, sentinels and rows that no token has."""
    tokenizer = encoder.tokenizer
    ordinary = torch.zeros(shape.vocabulary, dtype=torch.bool)
    ordinary[: len(tokenizer)] = True
    ordinary[list({*tokenizer.all_special_ids, *shape.sentinels})] = False
    return ordinary


@dataclass(frozen=True)
class Faults:
    """What is wrong with infillings that were written freely, as shares of the rows.

    Attributes:
        repeated: a sentinel comes twice.
        overlong: more than three times as many tokens as were hidden.
    """

    repeated: float
    overlong: float


def faults(
    written: Sequence[Sequence[int]], hidden: Sequence[int], sentinels: Sequence[int]
) -> Faults:
    """Whether freely written infillings hold to the form; a model that learnt it has none.

    Args:
        written: tokens of each row, sentinels included.
        hidden: tokens that were hidden in each row.
        sentinels: ids.
    """
    kind = set(sentinels)
    repeated = overlong = 0
    for row, budget in zip(written, hidden, strict=True):
        marks = [token for token in row if token in kind]
        repeated += len(marks) != len(set(marks))
        overlong += len(row) - len(marks) > 3 * budget
    rows = max(len(written), 1)
    return Faults(repeated / rows, overlong / rows)
