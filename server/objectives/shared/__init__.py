"""What several objectives are made of: maskings, losses, heads, decoders, banks."""
