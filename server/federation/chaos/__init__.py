"""Trying out an operator's rounds before they are deployed: faults at every level, and kills."""
