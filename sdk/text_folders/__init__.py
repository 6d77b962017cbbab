"""The texts of a folder, for whoever has no corpus: files of words become passages."""
