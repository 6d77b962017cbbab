from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from transformers import (
    BertConfig,
    BertModel,
    CamembertConfig,
    CamembertModel,
    ElectraConfig,
    ElectraModel,
    MPNetConfig,
    MPNetModel,
    RobertaConfig,
    RobertaModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from pocketquery.distill.exportable import ARCHITECTURES
from pocketquery.export.trunk import export_trunk
from pocketquery.sdk.errors import UnknownModelError

SHAPE = {
    "vocab_size": 90,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 40,
    "initializer_range": 0.2,
}
BUILDERS: dict[str, Any] = {
    "bert": lambda: BertModel(BertConfig(**SHAPE), add_pooling_layer=False),
    "camembert": lambda: CamembertModel(CamembertConfig(**SHAPE)),
    "electra": lambda: ElectraModel(ElectraConfig(**SHAPE, embedding_size=16)),
    "roberta": lambda: RobertaModel(RobertaConfig(**SHAPE), add_pooling_layer=False),
    "xlm-roberta": lambda: XLMRobertaModel(XLMRobertaConfig(**SHAPE), add_pooling_layer=False),
}


def test_every_supported_architecture_is_tested() -> None:
    assert set(BUILDERS) == set(ARCHITECTURES)


@pytest.mark.parametrize("name", sorted(BUILDERS))
def test_token_states_equal_torch_with_padding_on_either_side(name: str) -> None:
    torch.manual_seed(0)
    backbone = BUILDERS[name]().eval()
    model = export_trunk(backbone)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    mask = torch.ones(3, 17, dtype=torch.int64)
    mask[1, 6:] = 0
    mask[2, :4] = 0
    ids = torch.randint(5, 90, mask.shape).masked_fill(mask == 0, backbone.config.pad_token_id)
    with torch.no_grad():
        expected = backbone(input_ids=ids, attention_mask=mask)[0].numpy()
    found = session.run(None, {"input_ids": ids.numpy(), "attention_mask": mask.numpy()})[0]
    real = mask.numpy() == 1
    assert np.abs(found - expected)[real].max() < 1e-5


def test_attention_is_fused_and_residuals_are_not() -> None:
    torch.manual_seed(0)
    model = export_trunk(BUILDERS["bert"]())
    operators = [node.op_type for node in model.graph.node]
    assert operators.count("MultiHeadAttention") == 2
    assert operators.count("Gelu") == 2
    assert not {"SkipLayerNormalization", "BiasGelu", "Softmax"} & set(operators)
    assert [value.name for value in model.graph.input] == ["input_ids", "attention_mask"]


def test_the_length_is_asked_for_by_one_node() -> None:
    torch.manual_seed(0)
    operators = [node.op_type for node in export_trunk(BUILDERS["bert"]()).graph.node]
    assert (operators.count("Shape"), operators.count("Unsqueeze")) == (1, 0)
    assert operators.count("Gather") == 2  # words and positions


def test_the_graph_does_not_depend_on_the_attention_implementation() -> None:
    torch.manual_seed(0)
    fast = BUILDERS["bert"]()
    written_out = BertModel._from_config(fast.config, attn_implementation="eager")
    written_out.load_state_dict(fast.state_dict(), strict=False)
    assert _bytes(export_trunk(fast)) == _bytes(export_trunk(written_out))


def test_a_foreign_architecture_is_refused_with_the_supported_ones() -> None:
    backbone = MPNetModel(MPNetConfig(**SHAPE))
    with pytest.raises(UnknownModelError, match=r"mpnet.*bert, camembert, electra"):
        export_trunk(backbone)


def test_changed_attention_is_refused() -> None:
    refused: dict[str, dict[str, Any]] = {
        "positions of the type": {"position_embedding_type": "relative_key"},
        "a decoder": {"is_decoder": True},
        '"xielu" cannot be exported': {"hidden_act": "xielu"},
    }
    for said, options in refused.items():
        config = BertConfig(**SHAPE, **options)
        with pytest.raises(UnknownModelError, match=said):
            export_trunk(BertModel(config, add_pooling_layer=False))


def test_an_encoder_with_one_token_type_is_exported() -> None:
    """As ``new_encoder`` draws them; optimum's sample has two."""
    config = BertConfig(**SHAPE, type_vocab_size=1)
    assert export_trunk(BertModel(config, add_pooling_layer=False)).graph.output


def test_weights_that_do_not_match_the_configuration_are_refused() -> None:
    backbone = BUILDERS["bert"]()
    backbone.config.num_hidden_layers = 1
    with pytest.raises(UnknownModelError, match="do not match its configuration"):
        export_trunk(backbone)


def _bytes(model: onnx.ModelProto) -> bytes:
    return bytes(model.SerializeToString(deterministic=True))
