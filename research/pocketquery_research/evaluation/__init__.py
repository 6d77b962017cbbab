"""The papers' protocols: classification, duplicates, candidates, margins and the like."""
