"""The parts of finding.py: what is asked, of which corpora, and what answers."""
