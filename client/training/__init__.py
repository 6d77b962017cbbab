"""Local training with the bundle's ONNX training step."""
