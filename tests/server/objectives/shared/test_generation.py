"""What may be written, and whether free writing holds to the form."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives.gur import Gur, GurConfig, GurExample
from pocketquery.server.objectives.shared.infilling import Faults, Grammar, faults, generate
from tests.tiny_models import bert_teacher, sentences


def model() -> tuple[SentenceEncoder, Gur]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        encoder = bert_teacher(layers=1, width=32)
        return encoder, Gur(encoder, GurConfig(vector_size=16, max_length=32)).eval()


def memory_of(encoder: SentenceEncoder, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    found = encoder.tokenize(sentences(count))
    with torch.no_grad():
        return encoder.states(found["input_ids"], found["attention_mask"]), found["attention_mask"]


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
    together = generate(gur.decoder, encoder, memory, mask, None)
    for row in range(6):
        alone = generate(gur.decoder, encoder, memory[row : row + 1], mask[row : row + 1], None)
        assert alone[0].tokens == together[row].tokens
        assert alone[0].log_probability == pytest.approx(together[row].log_probability, abs=1e-5)


def test_greedy_writing_is_what_teacher_forcing_predicts() -> None:
    """Slow twin: feeding the text back, every token is the argmax of its position."""
    encoder, gur = model()
    assert gur.decoder is not None
    memory, mask = memory_of(encoder, 3)
    for row, written in enumerate(generate(gur.decoder, encoder, memory, mask, None)):
        tokens = written.tokens
        inputs = torch.tensor([[gur.decoder.shape.start, *tokens]])[:, : len(tokens)]
        with torch.no_grad():
            states = gur.decoder(inputs, memory[row : row + 1], mask[row : row + 1], encoder)
            scores = gur.decoder.logits(states[0], encoder).log_softmax(dim=-1)
        assert scores.argmax(dim=-1).tolist() == tokens


def test_faults_by_hand() -> None:
    found = faults([[9, 1, 8], [9, 1, 9, 2], [9, 1, 1, 1, 1, 8], []], [1, 2, 1, 1], (9, 8))
    assert found == Faults(repeated=0.25, overlong=0.25)
    assert faults([[9, 1, 1, 1, 8]], [1], (9, 8)) == Faults(0, 0)


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
        written = generate(gur.decoder, encoder, memory, batch["attention_mask"], None)
        sentinels = torch.tensor(gur.batches.sentinels)
        hidden = (batch["labels"] > 3) & ~torch.isin(batch["labels"], sentinels)
        return faults(
            [row.tokens for row in written], hidden.sum(1).tolist(), gur.batches.sentinels
        )

    assert broken().overlong > 0.9
    optimizer = torch.optim.AdamW([*encoder.parameters(), *gur.parameters()], lr=3e-3)
    for step in range(60):
        gur.train()
        loss = gur.loss(encoder.train(), gur.collate(examples, np.random.default_rng(step))).total
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
    assert broken() == Faults(repeated=0, overlong=0)
