"""A student, or its bundle's adapter, taught the documents of an index."""
