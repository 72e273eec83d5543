"""Modules that the fork server imports once for all cases."""

import os

from tests.reliability.fuzz.execute import ENVIRONMENT

os.environ.update(ENVIRONMENT)

import importlib
import pkgutil

import datasets  # noqa: F401
import lightning  # noqa: F401
import matplotlib.figure  # noqa: F401
import pyarrow.parquet  # noqa: F401
import sacrebleu  # noqa: F401
import sentencepiece  # noqa: F401
import torch

import heed
import train  # noqa: F401

for module in pkgutil.walk_packages(heed.__path__, "heed."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
torch.set_num_threads(1)
