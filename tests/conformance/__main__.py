"""Write conformance/ anew: ``python -m tests.conformance``."""

from tests.conformance import refused, store, training
from tests.sdk import javascript_databases, javascript_fixtures, javascript_indexes

for writer in (
    javascript_fixtures,
    javascript_databases,
    javascript_indexes,
    training,
    store,
    refused,  # changes what the others wrote
):
    print(writer.__name__)
    writer.main()
