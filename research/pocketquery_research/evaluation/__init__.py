"""The papers' protocols: classification, duplicates, margins and the like."""
