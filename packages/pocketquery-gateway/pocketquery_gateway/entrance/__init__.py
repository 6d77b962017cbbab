"""Limits on connections and requests, before a request is handled."""
