"""One step of local training as an ONNX graph, held to torch."""
