"""Made-up duplicate questions: families of templates that ask one thing in several ways.

A question is a template of a family filled with one thing and one aspect. Duplicates share family,
thing and aspect; the hard negatives share two of the three.
"""

from __future__ import annotations

import random

from made_up_words import made_up_words

__all__ = ["make_duplicates"]

_FAMILIES = [
    ["how do i {} a {}", "what is the best way to {} a {}", "can someone tell me how to {} the {}"],
    [
        "why can i not {} my {}",
        "what is the reason that i fail to {} a {}",
        "unable to {} the {} why",
    ],
    ["where can i {} a {}", "is there a place to {} a {}", "which shop lets me {} the {}"],
    ["how long does it take to {} a {}", "how many days to {} a {}", "time needed to {} the {}"],
    ["is it safe to {} a {}", "what are the dangers if i {} a {}", "should i worry to {} the {}"],
    ["how much does it cost to {} a {}", "price to {} a {}", "what do i pay to {} the {}"],
]


def make_duplicates(count: int, seed: int) -> tuple[list[tuple[str, str]], list[bool]]:
    """``count`` pairs of questions, half of them duplicates, shuffled, with their labels."""
    rng = random.Random(seed)
    words = made_up_words(260, rng)
    verbs, things = words[:60], words[60:]
    pairs: list[tuple[str, str]] = []
    labels: list[bool] = []
    for number in range(count):
        family, verb, thing = rng.randrange(len(_FAMILIES)), rng.choice(verbs), rng.choice(things)
        first, second = rng.sample(range(3), 2)
        duplicate = number % 2 == 0
        other = (family, verb, thing)
        while not duplicate and other == (family, verb, thing):
            slot = rng.randrange(3)
            other = (
                rng.randrange(len(_FAMILIES)) if slot == 0 else family,
                rng.choice(verbs) if slot == 1 else verb,
                rng.choice(things) if slot == 2 else thing,
            )
        pairs.append((_ask(family, verb, thing, first), _ask(*other, second)))
        labels.append(duplicate)
    order = rng.sample(range(count), count)
    return [pairs[i] for i in order], [labels[i] for i in order]


def _ask(family: int, verb: str, thing: str, wording: int) -> str:
    return _FAMILIES[family][wording].format(verb, thing)
