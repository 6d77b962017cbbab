"""What a device and its gateway say to each other: signed requests, and the message of an offer."""
