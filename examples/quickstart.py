"""Encode a query and search an index on this machine.

python examples/quickstart.py [BUNDLE INDEX]    (default: what `make demo` leaves)
"""

import sys

from pocketquery import sdk

bundle, index_path = sys.argv[1:3] if len(sys.argv) == 3 else ("demo/bundle", "demo/index")
encoder = sdk.load(bundle)
vector = encoder.encode("how do plants make sugar")
print(f"{encoder.name}: {vector.shape[0]} numbers, the first {vector[:3]}")
with sdk.open_index(index_path, encoder=encoder) as index:
    for hit in index.search("how do plants make sugar", k=3):
        print(f"{hit.score:.3f}  {hit.metadata.get('title', hit.id)}: {hit.text[:70]}")
