"""A gateway's round: sums of updates, or a private one's messages and replies; their tables."""
