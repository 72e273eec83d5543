"""Exchange models with other engines. Importing the package imports none of its modules."""

from functools import partial

from heed import errors

QUANTIZATIONS = ("float32", "int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16")
"""CTranslate2's types of weights."""

TARGETS = {
    "ctranslate2": QUANTIZATIONS,
    "huggingface": (),
    "page": ("int10", "float32", "int8"),
}
"""The engines, and the page for a browser, with their types of weights, the default first. The module ``to_NAME``
exports to each."""

require = partial(errors.require, need="This export", extra="export")
"""Imports a package of the extra ``export``, or raises a HeedError if it is not installed."""
