"""What the sentencepiece library would not survive never reaches it."""

from __future__ import annotations

import random

import numpy as np
import pytest
from sentencepiece import SentencePieceProcessor

from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.sdk.tokenizers.sentencepiece_file import read_sentencepiece_file
from pocketquery.sdk.tokenizers.sentencepiece_model import SentencePieceTokenizer
from tests.kills import by_fork
from tests.sdk.diverse_text import diverse_strings
from tests.sdk.handmade_sentencepiece import REFUSED, SOUND
from tests.sdk.hostile_sentencepiece import REFUSED as COUNT_REFUSED
from tests.sdk.hostile_sentencepiece import killed_by, sound_models


@pytest.mark.parametrize("name", REFUSED)
def test_each_kind_is_refused(name: str) -> None:
    with pytest.raises(CorruptArtifactError, match=r"model: found \d+ bytes that are not"):
        read_sentencepiece_file(REFUSED[name])
    with pytest.raises(CorruptArtifactError):
        SentencePieceTokenizer(REFUSED[name], 64, "plain")


@pytest.mark.parametrize("data", [*SOUND.values(), *sound_models()], ids=[*SOUND, *"12345"])
def test_the_others_cut_texts_as_the_library_does(data: bytes) -> None:
    ours, pieces = SentencePieceTokenizer(data, 9999, "plain"), reference(data)
    rng = random.Random(1)
    texts = ["".join(rng.choices("ab ABc\u6771", k=40)) for _ in range(50)]
    for text in [*texts, *diverse_strings(50, seed=2)]:
        assert ours.model_ids(text) == pieces.encode(text)


def reference(data: bytes) -> SentencePieceProcessor:
    """The library over the file itself, where it opens it."""
    try:
        return SentencePieceProcessor(model_proto=data)
    except RuntimeError:  # tests and denormalizers that are none, which we leave out
        return SentencePieceProcessor(model_proto=SOUND["few pieces"])


def test_pieces_types_and_the_file_itself() -> None:
    for data in sound_models():
        file, pieces = read_sentencepiece_file(data), SentencePieceProcessor(model_proto=data)
        numbers = range(pieces.get_piece_size())
        assert file.pieces == [pieces.id_to_piece(number) for number in numbers]
        unknown, control = pieces.unk_id(), [n for n in numbers if pieces.is_control(n)]
        assert np.flatnonzero(file.types == 2).tolist() == [unknown]
        assert np.flatnonzero(file.types == 3).tolist() == control
        assert file.with_pieces(numbers) == data
        assert len(file.model) < len(data)


@by_fork
def test_no_change_of_a_real_model_ends_the_process() -> None:
    """Each of these seeds ends the process where the library is given the file itself."""
    for seed in (27, 60, 63, 131, 134, 136, 194, 228, 249, 268, 333, 355):
        assert killed_by(seed, 1)[1] == []
    seen, killed = killed_by(1000, 40)
    assert (killed, seen[COUNT_REFUSED] > 10) == ([], True)


@by_fork
@pytest.mark.very_slow
def test_no_change_of_many_ends_the_process() -> None:
    seen, killed = killed_by(10_000, 3000)
    assert (killed, seen[COUNT_REFUSED] > 1000) == ([], True)
