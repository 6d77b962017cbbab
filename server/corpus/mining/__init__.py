"""Mining pairs, triples and hard negatives from raw text."""
