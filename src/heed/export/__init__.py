"""Export models to other engines. Importing the package imports no module of it."""

TARGETS = ("ctranslate2", "huggingface", "argos", "onnx")
"""The engines; module ``to_NAME`` writes for one."""

QUANTIZATIONS = ("int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16")
"""CTranslate2's types of weights, besides float32."""
