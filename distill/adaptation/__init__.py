"""Adapt a student, or its bundle's adapter, to the documents of an index."""
