"""Languages: their English names, and the translation directions of a model."""

from collections.abc import Sequence
from itertools import chain

from heed.data.directions import Direction, language_tag
from heed.data.tokenizer import Tokenizer
from heed.errors import HeedError, argument

NAMES = {
    "af": "Afrikaans", "am": "Amharic", "ar": "Arabic", "az": "Azerbaijani", "be": "Belarusian", "bg": "Bulgarian",
    "bn": "Bengali", "bo": "Tibetan", "br": "Breton", "bs": "Bosnian", "ca": "Catalan", "cs": "Czech", "cy": "Welsh",
    "da": "Danish", "de": "German", "dsb": "Lower Sorbian", "el": "Greek", "en": "English", "eo": "Esperanto",
    "es": "Spanish", "et": "Estonian", "eu": "Basque", "fa": "Persian", "fi": "Finnish", "fo": "Faroese",
    "fr": "French", "fy": "Western Frisian", "ga": "Irish", "gd": "Scottish Gaelic", "gl": "Galician",
    "gu": "Gujarati", "ha": "Hausa", "he": "Hebrew", "hi": "Hindi", "hr": "Croatian", "hsb": "Upper Sorbian",
    "hu": "Hungarian", "hy": "Armenian", "id": "Indonesian", "ig": "Igbo", "is": "Icelandic", "it": "Italian",
    "ja": "Japanese", "jv": "Javanese", "ka": "Georgian", "kk": "Kazakh", "km": "Khmer", "kn": "Kannada",
    "ko": "Korean", "ku": "Kurdish", "ky": "Kyrgyz", "la": "Latin", "lb": "Luxembourgish", "lo": "Lao",
    "lt": "Lithuanian", "lv": "Latvian", "mg": "Malagasy", "mi": "Maori", "mk": "Macedonian", "ml": "Malayalam",
    "mn": "Mongolian", "mr": "Marathi", "ms": "Malay", "mt": "Maltese", "my": "Burmese", "nb": "Norwegian Bokmål",
    "ne": "Nepali", "nl": "Dutch", "nn": "Norwegian Nynorsk", "no": "Norwegian", "oc": "Occitan", "pa": "Punjabi",
    "pl": "Polish", "ps": "Pashto", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "rw": "Kinyarwanda",
    "sa": "Sanskrit", "sd": "Sindhi", "si": "Sinhala", "sk": "Slovak", "sl": "Slovenian", "so": "Somali",
    "sq": "Albanian", "sr": "Serbian", "su": "Sundanese", "sv": "Swedish", "sw": "Swahili", "ta": "Tamil",
    "te": "Telugu", "tg": "Tajik", "th": "Thai", "tk": "Turkmen", "tl": "Tagalog", "tr": "Turkish", "tt": "Tatar",
    "ug": "Uyghur", "uk": "Ukrainian", "ur": "Urdu", "uz": "Uzbek", "vi": "Vietnamese", "wo": "Wolof", "xh": "Xhosa",
    "yi": "Yiddish", "yo": "Yoruba", "zh": "Chinese", "zu": "Zulu",
}  # fmt: skip
"""English names by ISO 639 code."""


def language_name(code: str) -> str:
    """Return the English name of a language, with its region if it has one; the code itself if it is unknown."""
    base, separator, region = code.replace("_", "-").partition("-")
    name = NAMES.get(base.lower())
    if name is None:
        return code
    return f"{name} ({region})" if separator else name


def choose_direction(tokenizer: Tokenizer, known: Sequence[Direction], name: str) -> Direction:
    """Return the direction with a name.

    A model with language tags also accepts untrained directions from one of its languages to one of its target
    languages (zero-shot translation, Johnson et al. 2017, §4.5).

    Args:
        known: the directions in which the model was trained, the default direction first.
        name: for example "de-en", or only the target language, "en".

    Raises:
        HeedError: if the model does not have this direction.
    """
    for direction in known:
        if name in (str(direction), direction.tgt_lang):
            return direction
    src_lang, _, tgt_lang = name.partition("-")
    languages = chain.from_iterable(known)
    if src_lang != tgt_lang and src_lang in languages and language_tag(tgt_lang) in tokenizer.tags:
        return Direction(src_lang, tgt_lang)
    has = f"it has {', '.join(map(str, known))}" if any(known[0]) else "its languages are unknown"
    raise HeedError(f"{argument('direction', name)} is not a direction of this model: {has}.")
