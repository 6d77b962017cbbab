"""The demo: the whole journey on a real corpus, from teacher to a search on the device."""
