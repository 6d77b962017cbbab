"""Local training through the ONNX step that came with the bundle."""
