"""Export models to other engines. Importing the package imports none of its modules."""

from functools import partial

from heed import errors

TARGETS = ("ctranslate2", "huggingface", "argos", "page")
"""The engines, and the page for a browser. The module ``to_NAME`` exports to each."""

QUANTIZATIONS = (
    "float32",
    "int10",
    "int8",
    "int8_float32",
    "int8_float16",
    "int8_bfloat16",
    "int16",
    "float16",
    "bfloat16",
)
"""Types of weights: float32, int10 and int8 of the page; CTranslate2's are all but int10."""


require = partial(errors.require, need="This export", extra="export")
"""Imports a package of the extra ``export``, or raises a HeedError if it is not installed."""
