"""Write conformance/ anew: ``python -m tests.conformance``."""

from tests.conformance import (
    deltas,
    gateway,
    graphs,
    lineage,
    refused,
    results,
    scripts,
    search,
    secure,
    stems,
    store,
    tables,
    tokenizers,
    training,
    words,
)
from tests.sdk import javascript_databases, javascript_fixtures, javascript_indexes

for writer in (
    javascript_fixtures,
    javascript_databases,
    javascript_indexes,
    graphs,
    training,
    store,
    stems,
    words,
    scripts,
    tables,
    tokenizers,
    lineage,
    gateway,
    secure,
    results,
    search,  # with the bundle that the first wrote
    deltas,  # of the indexes that the others wrote
    refused,  # changes what the others wrote
):
    print(writer.__name__)
    writer.main()
