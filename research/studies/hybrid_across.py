"""How much words should weigh where an index lacks most of a query's.

    python research/studies/hybrid_across.py --data FOLDER [--languages eng deu ...]

The hybrid ranking was below the better of its parts where a question in one language is asked of
texts in another: by .044 from English to German, .024 from English to Chinese, .020 from Vietnamese
and .017 from Spanish to English (``benchmarks/every_language.py``). What is chosen here is chosen
on NTREX alone, which no report has: 123 news articles, the same sentences in each language. A
passage is four sentences in a row, 351 in each language.

- *across*: the first half of a passage's second sentence, asked in one language, the passages in
  another; every ordered pair. One passage is right.
- *same*: the sentence behind the passage, which no passage has, in the same language.
- *mistyped*: the first half of the second sentence, in the same language, with a letter changed,
  lost, doubled or moved in every second word of five letters or more.
- *pool*: each passage in one language of all in turn, so that an index has all of them; asked in
  each language.

Candidates, declared before the first run. With r = p / U, the share of U whose terms the index has,
z = (cos - m) / (1 - m) and b = bm25 / U:

    fused = .25 (1 + L (1 - r)) z + (1 - c (1 - r)) b     L of 2, 3, 4, 6; c of 0, .5, .75, 1

Today's is L = 2, c = 0. All are the same where the index has all of the words, so that names and
English questions over English texts hardly change. For the pool, each with the candidate chosen:

    whole   as today: idf, U and p of the whole index
    p       p and so L, c by language: of the terms that some document of the row's language has
    idf     idf, U and p by language: of the number of its rows and of those that have the term

Rule. A candidate is admissible if the mean of *same* is at most .002 below today's, no language is
more than .005 below, and the same holds for *mistyped*. Of the admissible ones the best is that
whose largest loss to the better of its parts, over *across*, is least; among those within .002 of
it the one with the highest mean over *across*. For the pool the arm with the highest mean is taken
if it gains .02 or more over ``whole`` and its mean over questions whose answer is in their own
language loses at most .01; else it stays as it is.

Afterwards, once: XQuAD and the other sets of ``benchmarks/every_language.py``, the five English
sets and ``benchmarks/finding.py``. Nothing is chosen by these.
"""
