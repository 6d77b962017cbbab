"""Taking part in rounds through a gateway: signed requests, and what goes in them."""
