"""int8: quantisation, smoothing, and the gate that asks whether it still ranks alike."""
