"""The server's side of secure sums: a state machine and its journal tables."""
