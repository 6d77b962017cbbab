"""Teachers and document encoders: one class over any Hugging Face encoder."""

from pocketquery.server.modeling.presets import PRESETS, new_encoder
from pocketquery.server.modeling.resolve import DEMO_TEACHER, resolve_model
from pocketquery.server.modeling.sentence_encoder import SentenceEncoder
from pocketquery.server.modeling.space import space_id, tokenizer_fingerprint, weights_fingerprint

__all__ = [
    "DEMO_TEACHER",
    "PRESETS",
    "SentenceEncoder",
    "new_encoder",
    "resolve_model",
    "space_id",
    "tokenizer_fingerprint",
    "weights_fingerprint",
]
