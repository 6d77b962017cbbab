"""The gateway: HTTPS for phones and browsers on one side, a Flower node on the other."""
