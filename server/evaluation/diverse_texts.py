"""Texts of many kinds, to test an encoder outside its domain."""

from __future__ import annotations

__all__ = ["DIVERSE_TEXTS"]

DIVERSE_TEXTS = (
    "how do plants make sugar",
    "Who wrote the opera Aida?",
    "weather tomorrow",
    "a",
    "",
    "café naïve Ångström, e\u0301galite\u0301",
    "¿Dónde está la biblioteca más cercana?",
    "какая река самая длинная в европе",
    "光合作用是什么",
    "日本で一番高い山は何ですか",
    "ما هي عاصمة المغرب",
    "भारत की राजधानी क्या है",
    "3.14159 × 10^-7 m/s² (ISO 80000-1)",
    "e-mail: name@example.org, tel. +41 44 000 00 00",
    "good morning \U0001f31e\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "the quick brown fox jumps over the lazy dog " * 12,
)
"""Texts of many scripts and lengths; public, so they may be shipped in a bundle."""
