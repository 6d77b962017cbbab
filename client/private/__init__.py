"""The device's side of private rounds: secure sums, noise, and the device's own ledger."""
