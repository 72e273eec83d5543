"""Language codes: every way in which a language is written means the same language."""

import pytest

from heed.languages import Language, base_language, find_language, language_name, lower, upper

SAME = [
    ("de", "DE", "deu", "ger", "deu_Latn", "de-AT"),
    ("zh", "zho", "chi", "cmn", "zho_Hans", "zh-Hant-TW", "zh_CN", "cmn_Hans_CN", "cn"),
    ("pt", "por", "pt_BR", "pt-PT", "por_Latn"),
    ("fa", "fas", "per", "pes_Arab"),
    ("ar", "ara", "arb_Arab", "ar-EG"),
    ("ms", "msa", "may", "zsm_Latn"),
    ("sw", "swa", "swh_Latn"),
    ("lv", "lav", "lvs_Latn"),
    ("et", "est", "ekk"),
    ("nb", "nob_Latn"),
    ("nn", "nno_Latn"),
    ("no", "nor"),
    ("he", "heb_Hebr", "iw"),
    ("my", "mya_Mymr", "bur"),
    ("ja", "jpn_Jpan", "jp"),
    ("yue", "yue_Hant"),
    ("und", "und"),
    ("", ""),
]


@pytest.mark.parametrize("codes", SAME, ids=lambda codes: codes[0])
def test_all_codes_of_a_language_have_one_base(codes: tuple[str, ...]) -> None:
    assert {base_language(code) for code in codes} == {codes[0]}


def test_script_and_region_are_kept() -> None:
    assert Language.parse("zh-Hant-TW") == Language.parse("zho_hant_tw") == Language.parse("zh-TW")
    assert Language.parse("zh-TW") == Language("zh", "Hant", "TW") != Language.parse("zh-CN")
    assert Language.parse("sr_Latn") != Language.parse("srp_Cyrl")
    assert Language.parse("es-419") == Language("es", "", "419")
    assert Language.parse("deu_simple") == Language("de", variant="simple") != Language.parse("de")


@pytest.mark.parametrize(
    ("wanted", "codes", "found"),
    [
        ("deu", ["en", "de"], "de"),
        ("de", ["en", "deu_Latn"], "deu_Latn"),
        ("de-AT", ["de-CH", "de"], "de"),
        ("de-AT", ["de-CH"], None),
        ("en", ["en-US", "en"], "en"),
        ("en", ["en-US", "en-GB"], "en-US"),
        ("zh-TW", ["zh_Hans", "zh_Hant"], "zh_Hant"),
        ("zh-Hant", ["zh", "zh-HK"], "zh-HK"),
        ("deu", ["de", "deu"], "deu"),
        ("no", ["nb", "nn"], None),
        ("fr", ["en", "de"], None),
    ],
)
def test_a_language_is_found_among_codes(wanted: str, codes: list[str], found: str | None) -> None:
    assert find_language(wanted, codes) == found


def test_names_are_known_for_all_codes() -> None:
    assert [language_name(code) for code in ("deu", "pt_BR", "cmn_Hans", "xx")] == [
        "German",
        "Portuguese (BR)",
        "Chinese (Hans)",
        "xx",
    ]


@pytest.mark.parametrize("code", ["tr", "tur_Latn", "azj_Latn", "az"])
def test_turkish_and_azeri_have_two_letters_i(code: str) -> None:
    assert lower("IŞIK İZMİR I\u0307", code) == "ışık izmir i"
    assert upper("ışık izmir", code) == "IŞIK İZMİR"


def test_other_languages_map_case_as_python_does() -> None:
    assert (lower("IĞDIR", "en"), upper("in ß", "")) == ("iğdir", "IN SS")
