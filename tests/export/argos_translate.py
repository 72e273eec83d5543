"""Install an Argos package and translate standard input with it, line by line; needs argostranslate.

``ARGOS_PACKAGES_DIR=EMPTY_FOLDER PYTHON argos_translate.py FILE.argosmodel FROM TO < LINES``
"""

import sys

import argostranslate.package
import argostranslate.translate


class OneSentence:
    """A sentence splitter that does not split. Argos Translate's own downloads a model."""

    def __init__(self, package: object) -> None:
        pass

    def split_sentences(self, text: str) -> list[str]:
        return [text]


if __name__ == "__main__":
    file, source, target = sys.argv[1:]
    argostranslate.translate.MiniSBDSentencizer = OneSentence
    argostranslate.package.install_from_path(file)
    languages = {language.code: language for language in argostranslate.translate.get_installed_languages()}
    translation = languages[source].get_translation(languages[target])
    for line in sys.stdin:
        print(translation.hypotheses(line.rstrip("\n"), 1)[0].value, flush=True)
