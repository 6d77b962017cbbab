"""The server's side of secure sums: a state machine, its journal tables, and its driver."""
