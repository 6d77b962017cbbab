"""BEIR's folders: corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv, written from any collection.

python examples/integrations/beir_folder.py FOLDER --corpus FILE --queries FILE --qrels FILE

`pocketquery evaluate --dataset FOLDER` reads such folders, as do beir and many others.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pocketquery.sdk.folders import replace_folder
from pocketquery.server.corpus import Collection, CollectionFiles, read_collection


def write_beir(collection: Collection, folder: Path | str, split: str = "test") -> None:
    """Write ``collection`` to ``folder``; what was there is replaced when all of it is written.

    Metadata but the title goes into the field ``metadata``, as in BEIR's own files.

    Raises:
        OSError: the disk is full or not writable; the folder is as it was.
    """
    with replace_folder(folder) as temporary:
        with (temporary / "corpus.jsonl").open("w", encoding="utf-8") as file:
            for document in collection.documents:
                metadata = dict(document.metadata)
                title = metadata.pop("title", "")
                entry = {"_id": document.id, "title": title, "text": document.text}
                file.write(json.dumps(entry | {"metadata": metadata}, ensure_ascii=False) + "\n")
        with (temporary / "queries.jsonl").open("w", encoding="utf-8") as file:
            for query in collection.queries:
                entry = {"_id": query.id, "text": query.text, "metadata": {}}
                file.write(json.dumps(entry, ensure_ascii=False) + "\n")
        (temporary / "qrels").mkdir()
        with (temporary / "qrels" / f"{split}.tsv").open("w", encoding="utf-8") as file:
            file.write("query-id\tcorpus-id\tscore\n")
            for query_id, grades in collection.judgements.items():
                for document_id, grade in grades.items():
                    file.write(f"{query_id}\t{document_id}\t{grade}\n")


def main() -> None:
    """Read three files, write a folder."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", help="where; replaced where it is there")
    parser.add_argument("--corpus", required=True, type=Path, help="one JSON document a line")
    parser.add_argument("--queries", required=True, type=Path, help="tsv or jsonl")
    parser.add_argument("--qrels", required=True, type=Path, help="query id, document id, grade")
    parser.add_argument("--split", default="test")
    options = parser.parse_args()
    files = CollectionFiles(options.corpus, options.queries, options.qrels)
    write_beir(read_collection(files), options.folder, options.split)


if __name__ == "__main__":
    main()
