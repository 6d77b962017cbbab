"""How a student becomes a bundle: graph, int8 recipe, ranking gate, training step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.settings.common import Share
from pocketquery.sdk.settings.declaration import Option, Settings
from pocketquery.sdk.validation import number, whole

__all__ = [
    "OBJECTIVE_VIEWS",
    "AdapterTrain",
    "ExportOptions",
    "GateThresholds",
    "GraphOptions",
    "Objective",
    "QuantizationOptions",
    "SmallTeacherOptions",
    "TrainedPart",
    "TrainingOptions",
]

AdapterTrain = Literal["both", "up"]
Objective = Literal["index_byol", "byol"]
TrainedPart = Literal["adapter", "top", "all"]
OBJECTIVE_VIEWS = {"index_byol": (2,), "byol": (2, 4)}
"""The objectives of training steps, and how many views of a query each takes."""


@dataclass(frozen=True)
class GraphOptions(Settings):
    """What the graph holds beside the student."""

    opset: Annotated[int, whole(17), "ONNX operator set"] = 17
    adapter_rank: Annotated[
        int | None,
        whole(0),
        "0 leaves the adapter out (default: 8, or the most of which a release has 100 KB)",
    ] = None
    adapter_layers: Annotated[
        int | None, whole(1), "the last N layers have an adapter (default: all)", Option("N")
    ] = None
    adapter_seed: Annotated[int, "of the adapter's random down tensors"] = 0
    adapter_train: Annotated[
        AdapterTrain,
        "up: half of the adapter stays the random matrix it is exported with, which makes changes "
        "and releases small",
    ] = "both"

    @property
    def fixed_down(self) -> bool:
        """Whether ``down`` is a constant of the graph."""
        return self.adapter_train == "up"


@dataclass(frozen=True)
class QuantizationOptions(Settings):
    """How weights become integers."""

    seven_bit: Annotated[bool, "7-bit weights, safe on every processor"] = True
    smoothing_alpha: Annotated[float | None, "see quantization/smoothing.py; None: off"] = 0.75
    four_bit: Annotated[bool, "the layers' weights in 4 bits, half the bytes; they run in int8"] = (
        False
    )


@dataclass(frozen=True)
class SmallTeacherOptions(Settings):
    """What makes a teacher small, without training."""

    vocabulary_size: Annotated[
        int | None, whole(), "keep N pieces of its vocabulary (default: all)", Option("N")
    ] = None
    texts: Annotated[
        str | None,
        "choose pieces and fit codes by these, one a line (default: the queries)",
        Option("FILE"),
    ] = None
    subvector: Annotated[
        int | None, whole(), "so many dimensions of the vocabulary table share a byte", Option("N")
    ] = None
    max_length: Annotated[
        int | None, whole(4), "tokens of a text (default: the teacher's)", Option("N")
    ] = None


@dataclass(frozen=True)
class GateThresholds(Settings):
    """What int8 must keep.

    ``overlap`` is of the better half of the ranking where there are fewer than twenty documents,
    for all of them are among the ten best of ten.
    """

    overlap: Annotated[Share, "least of the float student's ten best documents, mean"] = 0.90
    ndcg_loss: Annotated[float, "most that nDCG@10 may fall below the float student's"] = 0.01
    cosine: Annotated[
        float, number(-1, 1), "of int8 to float, for each text that calibration did not see"
    ] = 0.95


@dataclass(frozen=True)
class TrainingOptions(Settings):
    """Which step of local training a bundle carries."""

    objective: Annotated[
        Objective,
        "carry a step of local training: index_byol (default), held to the device's own index, or "
        "byol",
        Option("OBJECTIVE", const="index_byol"),
    ] = "index_byol"
    part: Annotated[TrainedPart, "what the step trains; top: last layer and head"] = "adapter"
    views: Annotated[int, whole(2, 4), "of each query; byol: 2 or 4"] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.views not in OBJECTIVE_VIEWS[self.objective]:
            raise InvalidInputError(
                f"views is {self.views}; {self.objective} takes "
                f"{' or '.join(map(str, OBJECTIVE_VIEWS[self.objective]))}"
            )


@dataclass(frozen=True)
class ExportOptions(Settings):
    """Everything about an export that is not data."""

    graph: GraphOptions = GraphOptions()
    quantization: QuantizationOptions = QuantizationOptions()
    thresholds: GateThresholds = GateThresholds()
    calibration_texts: Annotated[
        int, whole(), "calibration texts that are run at most, evenly spaced; some are held out"
    ] = 512
    parity_texts: Annotated[int, whole(), "how many of them are compared with torch"] = 64
    training: Annotated[TrainingOptions | None, "the step of local training; None: none"] = None
    with_tokenizer: Annotated[
        bool,
        "also write encoder_with_tokenizer.onnx, text in and vector out, for apps that call "
        "onnxruntime with its extensions; it repeats the encoder's weights",
    ] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.training and self.training.part == "adapter" and self.graph.adapter_rank == 0:
            raise InvalidInputError(
                "the training step would train the adapter, and adapter_rank is 0; expected a rank "
                "of 1 or more, or another part to train"
            )
