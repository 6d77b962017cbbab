"""WordPiece and sentencepiece with the ids of the models' own tokenizers."""
