"""The encoder that takes text: its tokenizer as operators in the graph."""
