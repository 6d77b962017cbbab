"""A round as a value: how it is run, what it takes, what its sums become; and its tables."""
