"""``pocketquery search``: what it asks and how it shows hits."""
