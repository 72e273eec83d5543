"""Language codes, their English names and case mapping; and translation directions, pairs of languages."""

import re
import tomllib
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import chain
from operator import eq
from pathlib import Path
from typing import NamedTuple

from heed.errors import HeedError, argument

_TABLE: Mapping[str, list[str]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_BASES = {other: base for base, (_, *others) in _TABLE.items() for other in others}
_CODES = {name.casefold(): code for code, (name, *_) in _TABLE.items()}

CHINESE_SCRIPTS = {"CN": "Hans", "SG": "Hans", "HK": "Hant", "MO": "Hant", "TW": "Hant"}
"""The script of Chinese by region: zh-TW is zh-Hant-TW."""
DOTLESS_I = frozenset({"az", "crh", "gag", "tr"})
"""Languages in which the lower case of I is ı, and the upper case of i is İ."""


class Language(NamedTuple):
    """A language, independent of the standard in which its code is written."""

    base: str  # ISO 639-1 code if there is one (``de`` for deu and ger, ``zh`` for cmn), otherwise the code as given
    script: str = ""  # ISO 15924 code such as Hant
    region: str = ""  # ISO 3166 or UN M.49 code such as TW
    variant: str = ""  # other parts of the code, such as "simple" of ``de_simple``

    @classmethod
    def parse(cls, code: str) -> "Language":
        """Return the language of a code of ISO 639, FLORES (``zho_Hant``) or BCP 47 (``zh-Hant-TW``), in any case."""
        base, *tags = code.replace("_", "-").split("-")
        base = _BASES.get(base.lower(), base.lower())
        script = next((tag for tag in tags if re.fullmatch("[A-Za-z]{4}", tag)), "")
        region = next((tag for tag in tags if re.fullmatch("[A-Za-z]{2}|[0-9]{3}", tag)), "")
        variant = "-".join(tag.lower() for tag in tags if tag not in (script, region))
        if base == "zh" and not script:
            script = CHINESE_SCRIPTS.get(region.upper(), "")
        return cls(base, script.title(), region.upper(), variant)


def base_language(code: str) -> str:
    """Return the language of a code without script and region, in ISO 639-1 if possible."""
    return Language.parse(code).base


def is_same_language(code: str, other: str) -> bool:
    """Return whether two codes mean the same language, with the same script, region and variant."""
    return Language.parse(code) == Language.parse(other)


def find_language(wanted: str, codes: Iterable[str]) -> str | None:
    """Return the code that means a language: itself, or the most similar one without another script or region."""
    language, others = Language.parse(wanted), {code: Language.parse(code) for code in codes}

    def fits(other: Language) -> bool:
        return language.base == other.base and all(a == b or "" in (a, b) for a, b in zip(language, other, strict=True))

    fitting = [code for code, other in others.items() if fits(other)]
    return max(fitting, key=lambda code: (code == wanted, *map(eq, others[code], language)), default=None)


def named_language(name: str) -> str | None:
    """Return the code that a code or an English name of a language means; None for other text."""
    code = _CODES.get(name.casefold(), name)
    return code if base_language(code) in _TABLE else None


def language_name(code: str) -> str:
    """Return the English name of a language, with its script or region if it has one; the code itself if unknown."""
    base, separator, rest = code.replace("_", "-").partition("-")
    name, *_ = _TABLE.get(base_language(base), [""])
    if not name:
        return code
    return f"{name} ({rest})" if separator else name


def lower(text: str, lang: str) -> str:
    """Return the lower case of a text in a language, "" if unknown."""
    if base_language(lang) in DOTLESS_I:
        text = text.replace("I\u0307", "i").replace("İ", "i").replace("I", "ı")
    return text.lower()


def upper(text: str, lang: str) -> str:
    """Return the upper case of a text in a language, "" if unknown."""
    return (text.replace("i", "İ") if base_language(lang) in DOTLESS_I else text).upper()


# ---- directions

LANGUAGE_TAG = "<2"
"""Prefix of language tags, such as "<2de>"."""
REGIONAL = re.compile("[a-z]{2,3}(-[A-Z][a-z]{3})?(-[A-Z]{2})?")
"""One code with hyphens, such as zh-Hant-TW. The case of the letters tells it from a pair such as de-en."""


class Direction(NamedTuple):
    """A source and a target language, "" if unknown."""

    src_lang: str
    tgt_lang: str

    def __str__(self) -> str:
        return f"{self.src_lang}-{self.tgt_lang}"

    @property
    def tag(self) -> str:
        """The token at the start of a source that selects the target language (Johnson et al. 2017, §3)."""
        return language_tag(self.tgt_lang)

    def reversed(self) -> "Direction":
        """Return the direction from the target to the source language."""
        return Direction(self.tgt_lang, self.src_lang)

    @classmethod
    def parse(cls, name: str, *, where: str = "") -> "Direction":
        """Parse a name such as "en-de", or raise a HeedError that starts with ``where``."""
        languages = name.split("-")
        if len(languages) != 2 or not all(languages) or is_same_language(*languages):
            raise HeedError(
                f"{where}{name} must be two different language codes with a hyphen between them, such as en-de (a code "
                "of several parts is written with underscores: en-zh_Hant)."
            )
        return cls(*languages)


def language_tag(lang: str) -> str:
    """Return the tag of a target language, see `Direction.tag`."""
    return f"{LANGUAGE_TAG}{lang}>"


def choose_direction(name: str, known: Sequence[Direction], *, tags: Container[str]) -> Direction:
    """Return the direction of a model with a name.

    A model with language tags also accepts untrained directions from one of its languages to one of its target
    languages (zero-shot translation, Johnson et al. 2017, §4.5).

    Args:
        name: for example "de-en", or only the target language, "en", by any of their codes (`heed.languages`).
        known: the directions in which the model was trained, the default direction first.
        tags: the language tags of the model.

    Raises:
        HeedError: if the model does not have this direction.
    """
    languages = list(chain.from_iterable(known))
    splits = [(name[: hyphen.start()], name[hyphen.end() :]) for hyphen in re.finditer("-", name)]
    codes = [(find_language(src, languages), find_language(tgt, languages)) for src, tgt in splits]
    pairs = [Direction(src, tgt) for src, tgt in codes if src and tgt and src != tgt]
    found = [each for each in known if name in (str(each), each.tgt_lang)]
    found += [each for each in known if each in pairs]
    found += [each for each in pairs if each.tag in tags]
    if not pairs and (not splits or REGIONAL.fullmatch(name)):
        found += [each for each in known if each.tgt_lang == find_language(name, languages)]
    if found:
        return found[0]
    has = f"it has {', '.join(map(str, known))}" if any(known[0]) else "its languages are unknown"
    raise HeedError(f"{argument('direction', name)} is not a direction of this model: {has}.")
