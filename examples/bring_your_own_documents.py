"""Your own documents: encoded once by the teacher, searched with the light query encoder.

python examples/bring_your_own_documents.py DOCUMENTS.jsonl "a query" ["another" ...]

One document a line: {"_id": "7", "title": "optional", "text": "...", "year": 1999}. Further fields
are metadata, which a filter can use. The bundle must be distilled from the same teacher, which the
index checks: the default pair is the one `make demo` makes (extra "demo").
"""

from __future__ import annotations

import argparse

from pocketquery import sdk
from pocketquery.sdk.indexing.building import build_index
from pocketquery.server.corpus import read_documents
from pocketquery.server.modeling import SentenceEncoder


def main() -> None:
    """Build the index, then search it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("documents", help="a .jsonl or .jsonl.gz file")
    parser.add_argument("queries", nargs="+")
    parser.add_argument("--bundle", default="demo/bundle")
    parser.add_argument("--teacher", default="demo", help="a folder, a Hub name, or demo")
    parser.add_argument("--index", default="my-index", help="where the index is built")
    options = parser.parse_args()

    # Once, where the teacher runs: a server, or a laptop overnight.
    teacher = SentenceEncoder.load(options.teacher)
    report = build_index(
        read_documents(options.documents),
        teacher.encode_document,
        options.index,
        space_id=teacher.space_id,
        dimension=teacher.dimension,
        show_progress_bar=True,
    )
    print(f"{report.documents} documents, {report.bytes / 1e6:.1f} MB, in {report.seconds:.0f} s")

    # From here on, what the device does: neither the teacher nor torch is needed.
    encoder = sdk.load(options.bundle)
    with sdk.open_index(options.index, encoder=encoder) as index:
        for query in options.queries:
            print(f"\n{query}")
            for hit in index.search(query, k=3):
                print(f"  {hit.score:.3f}  {hit.metadata.get('title', hit.id)}: {hit.text[:70]}")


if __name__ == "__main__":
    main()
