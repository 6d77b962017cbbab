"""The bundle pocketquery-minilm; sdk.load("pocketquery-minilm") opens it."""
