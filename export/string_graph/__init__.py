"""The encoder that takes text: the tokenizer as operators in front of it."""
