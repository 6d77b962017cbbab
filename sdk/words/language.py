"""Which language texts are in, by their most common words and their scripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from pocketquery.sdk.words.characters import normalize
from pocketquery.sdk.words.stemming import CODES, NONE, script_of

__all__ = ["CODE_OF", "COMMON", "common_language", "detect_language"]

_MOST_CHARACTERS = 1 << 18  # that are read
_LEAST_SHARE = 0.08  # of the words in a script, that are a language's most common ones
_LEAST_WORDS = 2  # of these, in one text
# Words that are common in one language and rare in its neighbours. Languages without a stemmer are
# there so that they are not taken for another.
COMMON = {
    "arabic": "في من على إلى أن عن التي الذي هذا هذه كان مع ما لا بين ذلك",
    "persian": "در به از که این را با است برای آن یک می های ها شد بود",
    "urdu": "کے کی میں ہے کا اور سے کو نے ہیں پر کہ اس یہ ایک",
    "armenian": "է եւ են որ եր մեջ համար այս իր հետ էր",
    "greek": "και το να του η της με για που την τη από των στο είναι",
    "hebrew": "של את על לא הוא עם זה היא כי גם או היה",
    "yiddish": "און איז די פון דער אין צו מיט אַז האט ניט",
    "hindi": "के में की है से का को और ने पर हैं यह एक कि था",
    "nepali": "छ र को मा लागि पनि गर्न भने हो गरेको छन्",
    "marathi": "आहे आणि या च्या ते हे होते म्हणून होता आहेत",
    "russian": "и в не на что с по как это к из у за от для или также было",
    "ukrainian": "і в не на що з у та до як це за від є для або також його",
    "bulgarian": "на и да се от за в са по със не който това като е",
    "serbian": "је и у на да се су од за са који као je u na da se su od za sa koji kao",
    "tamil": "மற்றும் ஒரு இந்த என்று என அது இது இருந்து ஆகும்",
    "english": "the of and to in is that for it was with as are be this by not from or",
    "german": "der die und das den von ist mit des für im nicht ein eine auf dem sich auch",
    "dutch": "de het een van en is dat op te voor met zijn niet aan ook er wordt door",
    "swedish": "och att det som en på är av för med den till inte har ett om var",
    "danish": "og at det er en til af på for med den ikke der har et som blev",
    "norwegian": "og det er en til på for med som ikke av har den et å ble fra",
    "finnish": "ja on ei että se oli hän joka mutta myös ovat kun sen kuin tai",
    "estonian": "ja on ei et ta see oli kui mis ka aga või oma mida ning",
    "hungarian": "a az és hogy nem is egy volt meg ez csak van mint de vagy",
    "french": "le la les de des et un une du en que est dans pour qui au par sur il",
    "spanish": "el la los las de y en que un una es por con para se del su lo al",
    "portuguese": "o a os de e que em um uma do da não para com é no na dos se",
    "italian": "il di e la che in un una è del per non con della le sono da i dei",
    "catalan": "el la els les de i que en un una és per amb del no al dels va",
    "romanian": "și de la în a cu pe care nu este un o din să mai pentru sau că",
    "polish": "i w na z się nie do że jest o to jak po przez dla oraz od był",
    "czech": "a se v na je že o s z do i to jako za by pro ve jsou byl",
    "slovak": "a sa v na je že o s z do aj to ako za by pre vo sú bol",
    "croatian": "i u je na da se su za od koji nije kao ili iz što bio",
    "lithuanian": "ir yra kad į iš su tai buvo kaip bet jo ar nuo už apie",
    "latvian": "un ir ka no ar par uz kas tika bija arī bet vai pie tā",
    "turkish": "ve bir bu da de için ile olarak olan çok daha gibi ne en kadar var",
    "indonesian": "yang dan di ini dengan untuk dari pada dalam itu tidak adalah ke oleh juga",
    "vietnamese": "và của là có được cho trong một không những các người với này đã để",
    "basque": "eta da ez bat zen du izan dira ere hau zuen baina dute",
    "irish": "an na agus ar a go i is le bhí sé tá do ag níos",
    "esperanto": "la de kaj en estas al por ke ne kun li estis sed oni ĝi",
}
# English has these words, too; a note of one line may have no other common word.
_ALSO_ENGLISH = "a an at do go have he i my no on she so we you"
_STEMMERS_OF = {
    **dict.fromkeys(("urdu", "hebrew", "ukrainian", "bulgarian", "latvian", "vietnamese"), NONE),
    "marathi": "hindi",
    "slovak": "czech",
    "croatian": "serbian",
}


CODE_OF = {name: code for code, name in CODES.items()} | {
    "bulgarian": "bg",
    "croatian": "hr",
    "hebrew": "he",
    "latvian": "lv",
    "marathi": "mr",
    "norwegian": "no",
    "slovak": "sk",
    "ukrainian": "uk",
    "urdu": "ur",
    "vietnamese": "vi",
}


def detect_language(texts: Iterable[str]) -> str:
    """The language whose stemmer fits texts: the one whose most common words are the most frequent.

    English where no language's are frequent enough: names of files, tables, and languages that
    are not known here. Reads the first 262,144 characters.

    Returns:
        one of LANGUAGES, or NONE.
    """
    scores, least = _scores(texts)
    best = max(scores, key=lambda language: (scores[language], language == "english"))
    return _STEMMERS_OF.get(best, best) if scores[best] >= least else "english"


def common_language(text: str) -> str:
    """The code of the language whose most common words are the most frequent in a text; empty
    where fewer than two words are, or another language has as many."""
    scores, least = _scores([text])
    (best, most), (_, next_most) = scores.most_common(2)
    return CODE_OF[best] if most > next_most and most >= max(least, _LEAST_WORDS) else ""


def _scores(texts: Iterable[str]) -> tuple[Counter[str], float]:
    """How often each language's words occur, and how often they must."""
    counts: Counter[str] = Counter()
    remaining = _MOST_CHARACTERS
    for text in texts:
        counts.update(normalize(text[:remaining]).casefold().split())
        remaining -= len(text)
        if remaining <= 0:
            break
    total = sum(
        count for word, count in counts.items() if script_of(word.lstrip("\"'(")[:1] or "0")
    )
    scores = Counter(
        {language: sum(counts[word] for word in words) for language, words in _words().items()}
    )
    scores["english"] += sum(counts[word] for word in _ALSO_ENGLISH.split())
    return scores, max(_LEAST_SHARE * total, 1)


@cache
def _words() -> Mapping[str, Sequence[str]]:
    return {language: normalize(words).casefold().split() for language, words in COMMON.items()}
