"""What private rounds cost and what they promise: accounting, plans, and the officer's report."""
