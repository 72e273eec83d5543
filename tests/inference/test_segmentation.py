"""Rules of sentence ends by language."""

import pytest

from heed.inference.segmentation import sentence_rules


@pytest.mark.parametrize("code", ["de", "de_AT", "de-AT"])
def test_regional_codes_have_the_rules_of_their_language(code: str) -> None:
    line = "Am 3. Oktober war es kalt."
    assert sentence_rules(code)(line) == [line] != sentence_rules("en")(line)
