"""Infilling: writing what is missing in a text, with an encoder and the decoder GUR trained.

The decoder writes token by token, within a grammar that makes every output readable.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import torch

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.validation import check, number, whole
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives.objective import surrounding_specials
from pocketquery.server.objectives.shared.seq2seq_decoder import (
    DecoderShape,
    GurDecoder,
    load_decoder,
)
from pocketquery.server.objectives.shared.span_masking import read_spans

__all__ = ["BLANK", "Generated", "Grammar", "Infiller", "Infilling", "generate"]

BLANK = "___"
"""What stands for missing words: three underscores or more."""

_BLANKS = re.compile("_{3,}")


@dataclass(frozen=True)
class Generated:
    """What was written for one row of the memory.

    Attributes:
        tokens: with sentinels, without the end token.
        log_probability: mean over the tokens (the end token too) that the decoder chose itself.
    """

    tokens: list[int]
    log_probability: float


@dataclass(frozen=True)
class Grammar:
    """What may be written next.

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
        closed = [place for place, token in enumerate(written) if token in self.closers]
        since = len(written) - (closed[-1] + 1 if closed else 0)
        following = self.end
        if self.closers:
            following = self.closers[len(closed)]
            if not closed:  # every target starts with the first sentinel
                since = self.most_tokens
        may = self.ordinary.clone() if since < self.most_tokens else torch.zeros_like(self.ordinary)
        may[following] = since > 0  # nothing is left empty
        return may

    def finished(self, written: Sequence[int]) -> bool:
        """Whether nothing follows."""
        last = self.closers[-1] if self.closers else self.end
        return bool(written) and written[-1] == last


@torch.inference_mode()
def generate(
    decoder: GurDecoder,
    encoder: SentenceEncoder,
    memory: torch.Tensor,
    memory_mask: torch.Tensor,
    grammar: Grammar,
    *,
    temperature: float = 0.0,
    generator: torch.Generator | None = None,
) -> list[Generated]:
    """Write a text for each row of the memory.

    Args:
        decoder: in evaluation mode.
        encoder: whose table it is tied to.
        memory: the encoder's token states (rows, source length, width).
        memory_mask: int64 (rows, source length).
        grammar: what may be written.
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
        allowed = torch.stack([grammar.allowed(rows[row]) for row in open_rows])
        scores = scores.masked_fill(~allowed, -torch.inf).log_softmax(dim=-1)
        chosen = scores.argmax(dim=-1)
        if temperature > 0:
            probabilities = (scores / temperature).softmax(dim=-1)
            chosen = torch.multinomial(probabilities, 1, generator=generator).squeeze(1)
        for row, token, score in zip(open_rows, chosen.tolist(), scores, strict=True):
            rows[row].append(token)
            if float(score[token]) < 0:  # what the grammar leaves no choice in says nothing
                sums[row] += float(score[token])
                counts[row] += 1
        open_rows = [row for row in open_rows if not grammar.finished(rows[row])]
    return [
        Generated([t for t in row if t != shape.end], total / max(count, 1))
        for row, total, count in zip(rows, sums, counts, strict=True)
    ]


def _ordinary(shape: DecoderShape, encoder: SentenceEncoder) -> torch.Tensor:
    """The vocabulary without specials, sentinels and rows that no token has."""
    tokenizer = encoder.tokenizer
    ordinary = torch.zeros(shape.vocabulary, dtype=torch.bool)
    ordinary[: len(tokenizer)] = True
    ordinary[list({*tokenizer.all_special_ids, *shape.sentinels})] = False
    return ordinary


@dataclass(frozen=True)
class Infilling:
    """One way to fill a text's blanks.

    Attributes:
        text: with the blanks filled.
        fillings: one for each blank, in order.
        log_probability: the mean over the written tokens, at most 0.
    """

    text: str
    fillings: tuple[str, ...]
    log_probability: float


class Infiller:
    """Fills blanks and writes titles.

    Args:
        encoder: exported by the objective ``"gur"``.
        decoder: trained together with it.
    """

    def __init__(self, encoder: SentenceEncoder, decoder: GurDecoder) -> None:
        self.encoder = encoder.eval()
        self.decoder = decoder.eval()
        self._before, self._after = surrounding_specials(encoder.tokenizer)

    @classmethod
    def load(cls, folder: str | Path, *, device: str = "cpu") -> Infiller:
        """The model and the decoder saved in ``folder``.

        Raises:
            ArtifactNotFoundError: the model was saved without a decoder.
        """
        encoder = SentenceEncoder.load(folder, device=device)
        return cls(encoder, load_decoder(folder, encoder))

    def fill(
        self,
        text: str,
        *,
        samples: int = 1,
        temperature: float = 0.0,
        most_tokens: int = 5,
        seed: int = 0,
    ) -> list[Infilling]:
        """Ways to fill the blanks of ``text``, distinct, the likeliest first.

        Args:
            text: with one ``___`` or more.
            samples: ways to draw; equal ones are given once.
            temperature: 0 takes the likeliest token each time; higher draws more freely.
            most_tokens: of one blank.
            seed: of the draws.

        Raises:
            InvalidInputError: no blank, or more than the decoder has sentinels for; a long text.
        """
        check("samples", samples, whole())
        check("most_tokens", most_tokens, whole())
        check("temperature", temperature, number(0))
        parts = _BLANKS.split(text)
        blanks, most = len(parts) - 1, len(self.decoder.shape.sentinels) - 1
        if not 1 <= blanks <= most:
            raise InvalidInputError(
                f"the text has {blanks} blanks ({BLANK}); expected 1 to {most} of them"
            )
        grammar = Grammar.of_blanks(self.decoder.shape, self.encoder, blanks, most_tokens)
        written = self._written(self._source(parts), grammar, samples, temperature, seed)
        filled = {one.text: one for one in (self._filled(parts, way) for way in written)}
        return sorted(filled.values(), key=lambda one: -one.log_probability)

    def title(self, text: str, *, most_tokens: int = 16) -> str:
        """A title for ``text``; for decoders that were trained with ``title_share`` above 0."""
        grammar = Grammar.of_text(self.decoder.shape, self.encoder, most_tokens)
        [written] = self._written(self._ids(text)[: self._longest], grammar, 1, 0.0, 0)
        return self._text(written.tokens)

    def readable(self, text: str) -> str:
        """The first words of ``text``, as many as are read at once, with room for a blank."""
        words = text.split()
        ends = accumulate(len(self._ids(word)) for word in words)
        return " ".join(word for word, end in zip(words, ends, strict=True) if end < self._longest)

    @property
    def _longest(self) -> int:
        return self.encoder.max_length - len(self._before) - len(self._after)

    def _written(
        self, source: Sequence[int], grammar: Grammar, samples: int, temperature: float, seed: int
    ) -> list[Generated]:
        ids = torch.tensor([[*self._before, *source, *self._after]], device=self.encoder.device)
        mask = torch.ones_like(ids)
        with torch.inference_mode():
            memory = self.encoder.states(ids, mask).expand(samples, -1, -1)
            return generate(
                self.decoder,
                self.encoder,
                memory,
                mask.expand(samples, -1),
                grammar,
                temperature=temperature,
                generator=torch.Generator().manual_seed(seed),
            )

    def _source(self, parts: Sequence[str]) -> list[int]:
        """The parts' tokens with a sentinel for each blank between them."""
        source: list[int] = self._ids(parts[0])
        for sentinel, part in zip(self.decoder.shape.sentinels, parts[1:], strict=False):
            source += [sentinel, *self._ids(part)]
        if len(source) > self._longest:
            raise InvalidInputError(
                f"the text has {len(source)} tokens; expected at most {self._longest}. Shorten it"
            )
        return source

    def _filled(self, parts: Sequence[str], written: Generated) -> Infilling:
        spans = read_spans(written.tokens, self.decoder.shape.sentinels)
        fillings = tuple(self._text(span) for span in spans[: len(parts) - 1])
        text = parts[0] + "".join(map("".join, zip(fillings, parts[1:], strict=True)))
        return Infilling(text, fillings, written.log_probability)

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self.encoder.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def _text(self, ids: Sequence[int]) -> str:
        # A span that begins inside a word is left with WordPiece's mark of that.
        return str(self.encoder.tokenizer.decode(list(ids))).strip().removeprefix("##")
