"""Export models to other engines. Importing the package imports no module of it."""

from importlib import import_module
from typing import Any

from heed.errors import missing_package

TARGETS = ("ctranslate2", "huggingface", "argos", "onnx")
"""The engines; module ``to_NAME`` writes for one."""

QUANTIZATIONS = ("int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16")
"""CTranslate2's types of weights, besides float32."""


def require(package: str) -> Any:
    """Import a package of the extra ``export``, or raise a HeedError if it is not installed."""
    try:
        return import_module(package)
    except ImportError as error:
        raise missing_package("This export", package, "export") from error
