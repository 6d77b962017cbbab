"""A device's query encoder, taught by the hybrid ranking of the device's own index."""
