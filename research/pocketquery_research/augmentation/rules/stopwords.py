"""Words that a query can do without: articles, auxiliaries, prepositions, question words.

Short lists of our own. Negations are not in them: without "not" a query asks for the opposite.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["STOPWORDS"]

STOPWORDS: Mapping[str, frozenset[str]] = {
    "en": frozenset(
        """a an the of in on at to for from by with and or is are was were be been am do does did
        has have had can could should would will shall may i me my we our you your he she it its
        they them their this that these those there what which who whom whose how when where why
        as into about please some any""".split()
    ),
    "de": frozenset(
        """der die das den dem des ein eine einen einem einer eines und oder in im an am auf aus bei
        mit von vom zu zum zur für über ist sind war waren sein hat haben wird werden kann können
        soll ich mich mir mein meine du dein wir uns er sie es ihr man was wer wie wo wann warum
        welche welcher welches als bitte""".split()
    ),
    "fr": frozenset(
        """le la les un une des du de au aux et ou à en dans sur sous par pour avec chez est sont
        était être a ont avoir je me mon ma mes tu ton nous notre vous votre il elle on ils elles ce
        cette ces qui que quoi quel quelle quels quelles comment quand où pourquoi peut""".split()
    ),
    "es": frozenset(
        """el la los las un una unos unas de del al a en y o por para con sobre es son era ser está
        están ha han puede yo me mi mis tu su sus nos nuestro lo se que qué quién cuál cuáles cómo
        cuándo dónde como este esta ese esa""".split()
    ),
    "it": frozenset(
        """il lo la i gli le un uno una di del della dei delle da in nel nella su per con e o a al
        alla è sono era essere ha hanno può io mi mio mia si ci che chi cosa quale quali come quando
        dove perché questo questa""".split()
    ),
    "nl": frozenset(
        """de het een van in op aan te om voor met bij uit en of is zijn was waren ben heeft hebben
        kan kunnen ik mij mijn je jouw we ons hij zij ze wat wie welke hoe waar wanneer waarom dit
        dat deze die er""".split()
    ),
    "pt": frozenset(
        """o a os as um uma uns umas de do da dos das em no na nos nas por para com e ou ao à é são
        era ser está estão tem pode eu me meu minha se que quem qual quais como quando onde este
        esta esse essa""".split()
    ),
}
