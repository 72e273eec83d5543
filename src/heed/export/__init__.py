"""Export models to other engines. Importing the package imports none of its modules."""

from functools import partial

from heed import errors

TARGETS = ("ctranslate2", "huggingface", "argos", "page")
"""The engines, and the page for a browser. The module ``to_NAME`` exports to each."""

QUANTIZATIONS = ("float32", "int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16")
"""CTranslate2's types of weights."""

PAGE_WEIGHTS = ("float32", "int10", "int8")
"""The page's types of weights."""


require = partial(errors.require, need="This export", extra="export")
"""Imports a package of the extra ``export``, or raises a HeedError if it is not installed."""
