"""What every connection to a gateway, and every request, has to pass before it is looked at."""
