"""What a search shows: snippets, groups, facet counts, and the output of the command."""
