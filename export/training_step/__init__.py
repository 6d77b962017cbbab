"""One step of local training as an ONNX graph, checked against torch."""
