"""Views of a query: typing noise and rewritings that keep its meaning."""
