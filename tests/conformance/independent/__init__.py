"""A second reader, written from docs/formats alone: it imports nothing of pocketquery.

Where it and the SDK differ, the text is not good enough. It reads what is sound; what must be
refused, ``conformance/refused.json.gz`` says.
"""
