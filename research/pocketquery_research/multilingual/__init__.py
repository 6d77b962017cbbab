"""The multilingual teacher as an int8 graph, and the sets that encoders of many languages face."""
