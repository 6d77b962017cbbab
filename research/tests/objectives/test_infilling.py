"""Filling blanks and writing titles with a model that has learnt sentences by heart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from pocketquery.sdk.errors import ArtifactNotFoundError, InvalidInputError
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives.gur import Gur, GurConfig, GurExample
from pocketquery.server.objectives.shared.seq2seq_decoder import GurDecoder
from pocketquery_research.objectives.infilling import (
    Grammar,
    Infiller,
    generate,
)
from research.tests.infilling_model import FACTS, infilling_model
from tests.tiny_models import bert_teacher, sentences


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return infilling_model(tmp_path_factory.mktemp("gur") / "model")


def test_a_blank_is_filled_with_what_was_there(folder: Path) -> None:
    infiller = Infiller.load(folder)
    [found] = infiller.fill("the Norman king of the ___ battle")
    assert found.fillings == ("castle",)
    assert found.text == "the Norman king of the castle battle"  # the rest as it was written
    assert -0.5 < found.log_probability <= 0
    [found] = infiller.fill("the ____ of the heart ___ oxygen")
    assert set(" ".join(found.fillings).split()) <= set(" ".join(FACTS).split())
    assert found.text == "the {} of the heart {} oxygen".format(*found.fillings)


def test_samples_are_distinct_and_the_likeliest_comes_first(folder: Path) -> None:
    infiller = Infiller.load(folder)
    options = {"samples": 12, "temperature": 3.0}
    found = infiller.fill("the rock of the ___", **options)  # type: ignore[arg-type]
    assert len({one.text for one in found}) == len(found) > 2
    scores = [one.log_probability for one in found]
    assert scores == sorted(scores, reverse=True)
    assert infiller.fill("the rock of the ___", **options) == found  # type: ignore[arg-type]
    other = infiller.fill("the rock of the ___", seed=1, **options)  # type: ignore[arg-type]
    assert other != found


def test_no_blank_takes_more_tokens_than_asked_for(folder: Path) -> None:
    infiller = Infiller.load(folder)
    fillings = [
        [
            one.fillings[0]
            for one in infiller.fill("the ___", samples=20, temperature=9.0, most_tokens=most)
        ]
        for most in (1, 2)
    ]
    assert max(len(filling.split()) for filling in fillings[0]) == 1
    assert max(len(filling.split()) for filling in fillings[1]) == 2


def test_titles(folder: Path) -> None:
    infiller = Infiller.load(folder)
    assert [infiller.title(fact) for fact in FACTS] == [fact.split()[-1] for fact in FACTS]
    infiller.title(" ".join(FACTS * 9))  # longer than the encoder reads


def test_texts_that_cannot_be_filled_are_refused(folder: Path) -> None:
    infiller = Infiller.load(folder)
    with pytest.raises(InvalidInputError, match=r"has 0 blanks \(___\); expected 1 to"):
        infiller.fill("no blank __ here")
    with pytest.raises(InvalidInputError, match="has 40 blanks"):
        infiller.fill("a ___ " * 40)
    with pytest.raises(InvalidInputError, match="Shorten it"):
        infiller.fill("water " * 80 + "___")
    with pytest.raises(InvalidInputError, match="samples is 0"):
        infiller.fill("a ___", samples=0)


def test_a_model_without_a_decoder_cannot_fill(tmp_path: Path) -> None:
    bert_teacher(layers=1, width=32).save(tmp_path / "plain")
    with pytest.raises(ArtifactNotFoundError, match=r"holds no infilling\.safetensors"):
        Infiller.load(tmp_path / "plain")


def model() -> tuple[SentenceEncoder, Gur]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        encoder = bert_teacher(layers=1, width=32)
        return encoder, Gur(encoder, GurConfig(vector_size=16, max_length=32)).eval()


def memory_of(encoder: SentenceEncoder, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    found = encoder.tokenize(sentences(count))
    with torch.no_grad():
        return encoder.states(found["input_ids"], found["attention_mask"]), found["attention_mask"]


class FreeWriting(Grammar):
    """Anything up to the end token, as the bare decoder will."""

    def allowed(self, written: Sequence[int]) -> torch.Tensor:
        return torch.ones_like(self.ordinary)

    def finished(self, written: Sequence[int]) -> bool:
        return written[-1] == self.end


def free(decoder: GurDecoder) -> FreeWriting:
    shape = decoder.shape
    return FreeWriting(torch.ones(shape.vocabulary, dtype=torch.bool), (), 1, shape.end)


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
    repeated = overlong = 0
    for row, budget in zip(written, hidden, strict=True):
        marks = [token for token in row if token in sentinels]
        repeated += len(marks) != len(set(marks))
        overlong += len(row) - len(marks) > 3 * budget
    return Faults(repeated / len(written), overlong / len(written))


GRAMMAR = Grammar(torch.tensor([True] * 4 + [False] * 4), (5, 6, 7), 2, 4)


@pytest.mark.parametrize(
    ("written", "allowed"),
    [
        ([], [5]),
        ([5], [0, 1, 2, 3]),
        ([5, 1], [0, 1, 2, 3, 6]),
        ([5, 1, 1], [6]),
        ([5, 1, 6], [0, 1, 2, 3]),
        ([5, 1, 6, 3], [0, 1, 2, 3, 7]),
    ],
)
def test_blanks_are_written_in_order_none_empty_none_too_long(
    written: list[int], allowed: list[int]
) -> None:
    assert GRAMMAR.allowed(written).nonzero().flatten().tolist() == allowed
    assert not GRAMMAR.finished(written)
    assert GRAMMAR.finished([5, 1, 6, 3, 7])


def test_a_text_ends_with_the_end_token() -> None:
    grammar = Grammar(GRAMMAR.ordinary, (), 2, 4)
    assert grammar.allowed([]).nonzero().flatten().tolist() == [0, 1, 2, 3]
    assert grammar.allowed([1]).nonzero().flatten().tolist() == [0, 1, 2, 3, 4]
    assert grammar.allowed([1, 1]).nonzero().flatten().tolist() == [4]
    assert grammar.finished([1, 4])


@pytest.mark.parametrize("blanks", [1, 2, 4])
def test_whatever_the_weights_the_output_can_be_read(blanks: int) -> None:
    encoder, gur = model()
    assert gur.decoder is not None
    shape = gur.decoder.shape
    grammar = Grammar.of_blanks(shape, encoder, blanks, 3)
    generator = torch.Generator().manual_seed(0)
    written = generate(
        gur.decoder, encoder, *memory_of(encoder, 20), grammar, temperature=2, generator=generator
    )
    for row in written:
        marks = [place for place, token in enumerate(row.tokens) if token in shape.sentinels]
        assert [row.tokens[place] for place in marks] == list(shape.sentinels[: blanks + 1])
        assert set(np.diff(marks)) <= {2, 3, 4}
        assert marks[0] == 0
        assert marks[-1] == len(row.tokens) - 1
        assert row.log_probability < 0


def test_a_rows_text_does_not_depend_on_the_others() -> None:
    encoder, gur = model()
    assert gur.decoder is not None
    memory, mask = memory_of(encoder, 6)
    together = generate(gur.decoder, encoder, memory, mask, free(gur.decoder))
    for row in range(6):
        alone = generate(
            gur.decoder, encoder, memory[row : row + 1], mask[row : row + 1], free(gur.decoder)
        )
        assert alone[0].tokens == together[row].tokens
        assert alone[0].log_probability == pytest.approx(together[row].log_probability, abs=1e-5)


def test_greedy_writing_is_what_teacher_forcing_predicts() -> None:
    """Slow twin: feeding the text back, every token is the argmax of its position."""
    encoder, gur = model()
    assert gur.decoder is not None
    memory, mask = memory_of(encoder, 3)
    for row, written in enumerate(generate(gur.decoder, encoder, memory, mask, free(gur.decoder))):
        tokens = written.tokens
        inputs = torch.tensor([[gur.decoder.shape.start, *tokens]])[:, : len(tokens)]
        with torch.no_grad():
            states = gur.decoder(inputs, memory[row : row + 1], mask[row : row + 1], encoder)
            scores = gur.decoder.logits(states[0], encoder).log_softmax(dim=-1)
        assert scores.argmax(dim=-1).tolist() == tokens


@pytest.mark.slow
def test_training_teaches_the_form() -> None:
    """Free writing: an untrained decoder breaks the form, a trained one keeps it."""
    encoder, gur = model()
    assert gur.decoder is not None
    examples = [GurExample(a, b, a) for a, b in zip(sentences(64), sentences(64)[1:], strict=False)]

    def broken() -> Faults:
        assert gur.decoder is not None
        batch = gur.eval().collate(examples[:16], np.random.default_rng(99))
        with torch.no_grad():
            memory = encoder.eval().states(batch["input_ids"], batch["attention_mask"])
        written = generate(gur.decoder, encoder, memory, batch["attention_mask"], free(gur.decoder))
        sentinels = torch.tensor(gur.sentinels)
        hidden = (batch["labels"] > 3) & ~torch.isin(batch["labels"], sentinels)
        return faults([row.tokens for row in written], hidden.sum(1).tolist(), gur.sentinels)

    assert broken().overlong > 0.9
    optimizer = torch.optim.AdamW([*encoder.parameters(), *gur.parameters()], lr=3e-3)
    for step in range(60):
        gur.train()
        loss = gur.loss(encoder.train(), gur.collate(examples, np.random.default_rng(step))).total
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
    assert broken() == Faults(repeated=0, overlong=0)
