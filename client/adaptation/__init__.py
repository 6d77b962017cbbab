"""Adapt a device's query encoder to the hybrid ranking of its own index."""
