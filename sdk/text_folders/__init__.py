"""Read a folder of texts as passages, without a corpus file."""
