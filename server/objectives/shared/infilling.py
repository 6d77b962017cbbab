"""Writing what is missing in a text, with an encoder and the decoder GUR trained beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives.gur_batches import surrounding_specials
from pocketquery.server.objectives.shared.generation import Grammar, Written, generate
from pocketquery.server.objectives.shared.sentinels import read_spans
from pocketquery.server.objectives.shared.seq2seq_decoder import GurDecoder, load_decoder

__all__ = ["BLANK", "Filled", "Infiller"]

BLANK = "___"
"""What stands for missing words: three underscores or more."""

_BLANKS = re.compile("_{3,}")


@dataclass(frozen=True)
class Filled:
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
    ) -> list[Filled]:
        """Ways to fill the blanks of ``text``, distinct, the likeliest first.

        Args:
            text: with one ``___`` or more.
            samples: ways to draw; equal ones are given once.
            temperature: 0 takes the likeliest token each time; higher draws more freely.
            most_tokens: of one blank.
            seed: of the draws.

        Raises:
            InvalidInputError: no blank, or more than the decoder has sentinels for.
        """
        if samples < 1 or most_tokens < 1 or not temperature >= 0:
            raise InvalidInputError(
                f"samples is {samples}, most_tokens {most_tokens}, temperature {temperature}; "
                "expected at least 1, 1 and 0"
            )
        parts = _BLANKS.split(text)
        blanks, most = len(parts) - 1, len(self.decoder.shape.sentinels) - 1
        if not 1 <= blanks <= most:
            raise InvalidInputError(
                f"the text has {blanks} blanks ({BLANK}); expected 1 to {most} of them"
            )
        grammar = Grammar.of_blanks(self.decoder.shape, self.encoder, blanks, most_tokens)
        written = self._written(self._source(parts), grammar, samples, temperature, seed)
        found = {one.text: one for one in (self._filled(parts, way) for way in written)}
        return sorted(found.values(), key=lambda one: -one.log_probability)

    def title(self, text: str, *, most_tokens: int = 16) -> str:
        """A title for ``text``; for decoders that were trained with ``title_share`` above 0."""
        grammar = Grammar.of_text(self.decoder.shape, self.encoder, most_tokens)
        [written] = self._written(self._ids(text)[: self._room], grammar, 1, 0.0, 0)
        return self._text(written.tokens)

    @property
    def _room(self) -> int:
        return self.encoder.max_length - len(self._before) - len(self._after)

    def _written(
        self, source: Sequence[int], grammar: Grammar, samples: int, temperature: float, seed: int
    ) -> list[Written]:
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
        if len(source) > self._room:
            raise InvalidInputError(
                f"the text has {len(source)} tokens; expected at most {self._room}. Shorten it"
            )
        return source

    def _filled(self, parts: Sequence[str], written: Written) -> Filled:
        spans = read_spans(written.tokens, self.decoder.shape.sentinels)
        fillings = tuple(self._text(span) for span in spans[: len(parts) - 1])
        text = parts[0] + "".join(map("".join, zip(fillings, parts[1:], strict=True)))
        return Filled(text, fillings, written.log_probability)

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self.encoder.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def _text(self, ids: Sequence[int]) -> str:
        # A span that begins inside a word is left with WordPiece's mark of that.
        return str(self.encoder.tokenizer.decode(list(ids))).strip().removeprefix("##")
