"""The word distributions of CPDAE's vectors, and the file of its decoder beside the encoder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from pocketquery.sdk.validation import check, whole
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.sentence_encoder import pool
from pocketquery.server.objectives.shared.bag_of_words import BagDecoder
from pocketquery.server.objectives.shared.decoder_files import reading_beside, save_beside
from pocketquery.server.objectives.shared.js_contrast import log_distribution

__all__ = ["WORDS_FILE", "PredictedWord", "WordPredictor", "save_bag_decoder"]

WORDS_FILE = "words.safetensors"
"""Name of the decoder's file in a model's folder."""


class PredictedWord(NamedTuple):
    """A token that a vector predicts."""

    token: str
    probability: float
    """Of the text's word distribution, which sums to 1 over the vocabulary."""


class WordPredictor:
    """The words that an encoder's vector says of a text, by the decoder CPDAE trained with it.

        WordPredictor.load("cpdae-encoder").words("who built the bridge of sighs")

    ("A Contrastive Pre-training Approach to Learn Discriminative Autoencoder for Dense Retrieval",
    table 4, shows such distributions.)

    Args:
        encoder: trained by the objective ``"cpdae"``.
        decoder: trained together with it.
        pooling: of the vectors that the decoder reads.
    """

    def __init__(self, encoder: SentenceEncoder, decoder: BagDecoder, pooling: str) -> None:
        self.encoder = encoder.eval()
        self.decoder = decoder.to(encoder.device).eval()
        self.pooling = pooling

    @classmethod
    def load(cls, folder: str | Path, *, device: str = "cpu") -> WordPredictor:
        """The model and the decoder saved in ``folder``.

        Raises:
            ArtifactNotFoundError: the model was saved without a decoder.
            CorruptArtifactError: its file cannot be read.
            SpaceMismatchError: it was trained with other weights than the model's.
        """
        encoder = SentenceEncoder.load(folder, device=device)
        decoder = BagDecoder(encoder)
        with reading_beside(Path(folder) / WORDS_FILE, encoder, "cpdae") as saved:
            # Another objective of the run may have added tokens since the decoder was made.
            decoder.bias = nn.Parameter(torch.zeros(len(saved.tensors["bias"])))
            decoder.load_state_dict(saved.tensors)
            pooling = str(saved.about["pooling"])
        return cls(encoder, decoder, pooling)

    @torch.inference_mode()
    def distributions(self, texts: Sequence[str]) -> torch.Tensor:
        """Probabilities of the tokens, float32 (len(texts), vocabulary); rows sum to 1."""
        tokens = self.encoder.tokenize(texts).to(self.encoder.device)
        ids, mask = tokens["input_ids"], tokens["attention_mask"]
        vectors = pool(self.encoder.states(ids, mask), mask, self.pooling)
        return log_distribution(self.decoder(vectors, self.encoder)).exp()

    def words(self, text: str, most: int = 10) -> list[PredictedWord]:
        """The likeliest tokens of ``text``, at most ``most``, the likeliest first."""
        check("most", most, whole())
        [probabilities] = self.distributions([text])
        top = probabilities.topk(min(most, len(probabilities)))
        return [
            PredictedWord(self.encoder.tokenizer.convert_ids_to_tokens(token), probability)
            for token, probability in zip(top.indices.tolist(), top.values.tolist(), strict=True)
        ]


def save_bag_decoder(
    folder: Path, decoder: BagDecoder, encoder: SentenceEncoder, pooling: str
) -> None:
    """Write the decoder into the folder of the saved model it belongs to, for WordPredictor.

    Args:
        folder: where ``encoder`` was saved.
        decoder: trained together with it.
        encoder: the exported model; the decoder is tied to its table and refuses any other.
        pooling: of the vectors it was trained on.
    """
    save_beside(folder / WORDS_FILE, decoder.state_dict(), {"pooling": pooling}, encoder)
