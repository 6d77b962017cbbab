"""The pocketquery bundle pocketquery-minilm; pocketquery.sdk.load("pocketquery-minilm") opens it."""
