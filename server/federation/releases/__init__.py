"""Candidates judged by the gate, and the registry of what is in force."""
