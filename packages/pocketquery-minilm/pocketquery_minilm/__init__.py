"""The bundle pocketquery-minilm; pocketquery.sdk.load("pocketquery-minilm") opens it."""
