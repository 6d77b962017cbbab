"""The query encoders that come with pocketquery: what they learn from, and how they are made."""
