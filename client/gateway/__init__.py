"""Take part in rounds through a gateway: signed requests and their contents."""
