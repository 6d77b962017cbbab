"""Augmenters that are rules: for English, for crops, and synonyms from a table."""
