"""Words so common that they say nothing of what a text is about: articles, pronouns, questions.

A snippet does not mark them. In texts of another language one of them is a rare word that means
something else (``war`` in German, ``die`` in English): ``Analyzer.common_terms`` says which a query
has.
"""

from __future__ import annotations

from itertools import chain

from pocketquery.sdk.words.language import COMMON

__all__ = ["COMMON_IN", "MORE", "is_common"]

# Beside those by which languages are told apart.
MORE = {
    "arabic": "أو إن ثم قد كل هل هو هي و",
    "danish": "de du fra han hun hvad hvor hvordan i jeg kan man men om sig var vi",
    "dutch": "als bij den der die dit hij hoe ik in je kan mijn naar of om tot uit waar "
    "wat we wie ze zo",
    "english": "a about after all also am an any at been but can could did do does had has "
    "have he her him his how i if into its may me my no nor on our she should so "
    "than their them then there these they those us we were what when where which "
    "who whom whose why will would you your",
    "finnish": "he jos me mikä minä missä miten mitä ne niin nyt ole sinä te tämä vain voi",
    "french": "aux avec c ce ces cette comment d elle ils j je l leur mais me mon n ne nous "
    "on ou où pas qu quand quel quelle quoi s sa se ses son sont vous à être",
    "german": "aber als am an aus bei bin bis dass du einem einen einer eines er es hat ich "
    "ihr in kann man mein nach noch oder sein sie sind so um uns vor wann war "
    "warum was wenn wer werden wie wir wird wo zu zum zur über",
    "hungarian": "azt ha hol ki mi mit",
    "italian": "a ai al alla chi come cosa dal delle dove gli ha io lo ma mi nel nella o "
    "perché più quale quando se si su",
    "norwegian": "at de der du han hun hva hvor hvordan i jeg kan man men om seg var vi",
    "polish": "a ale co czy gdzie już kto są ta tak ten za",
    "portuguese": "ao as como das ela ele eu foi mas nas nos onde ou por qual quando quem ser "
    "seu sua são à",
    "romanian": "al am ar ca ce cum da prin sa se sunt una unde",
    "russian": "а без был была быть вы где да до его если есть же какой когда который кто ли "
    "мы но о об он она они при так то я",
    "spanish": "a como cuando cuál cómo donde dónde ella está fue le me mi más no o pero "
    "quién qué ser si sin son sus yo él",
    "swedish": "alla de du där eller han hon hur i jag kan man men mig min när sig så vad vem vi",
    "turkish": "ama ben biz mi nasıl nerede o sen",
}


# Of each word the languages that it is common in.
_OF_WORD: dict[str, set[str]] = {}
for _language, _words in chain(COMMON.items(), MORE.items()):
    for _word in _words.split():
        _OF_WORD.setdefault(_word, set()).add(_language)
COMMON_IN = {word: frozenset(languages) for word, languages in _OF_WORD.items()}


def is_common(word: str, language: str) -> bool:
    """Whether ``word``, in lower case, is one of them."""
    return language in COMMON_IN.get(word, ())
