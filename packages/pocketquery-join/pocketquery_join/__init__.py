"""A device's part at a gateway: it registers, trains, uploads and fetches releases."""
