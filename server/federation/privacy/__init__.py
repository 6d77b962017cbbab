"""What private rounds cost and what they promise: plans, and the officer's report."""
