"""The bundle pocketquery-multilingual; sdk.load("pocketquery-multilingual") opens it."""
