"""The models of the server, selected by languages or by name."""

import re
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple

from heed.errors import HeedError
from heed.inference.translator import Translator
from heed.languages import find_language, language_name
from heed.serve.errors import ApiError


class ServedModel(NamedTuple):
    """A model with its name for clients."""

    name: str
    translator: Translator


class Route(NamedTuple):
    """A model and one of its directions."""

    model: str
    source: str
    target: str
    translator: Translator


class Models:
    """The served models.

    Args:
        models: the first model of a direction is its default.

    Raises:
        HeedError: if there is no model, names are equal, or a model's languages are unknown.
    """

    def __init__(self, models: Sequence[ServedModel]) -> None:
        if not models:
            raise HeedError("There is no model to serve: give a run or a model folder.")
        self.names = [model.name for model in models]
        if len(set(self.names)) < len(self.names):
            raise HeedError(f"Two models have the same name: {', '.join(self.names)}. Give each its own.")
        self.routes: list[Route] = []
        for name, translator in models:
            if {translator.src_lang, translator.tgt_lang} & {"", "und"}:
                raise HeedError(f"The languages of {name} are unknown: set src_lang and tgt_lang in model/config.yaml.")
            for directed in map(translator.in_direction, translator.directions):
                self.routes.append(Route(name, directed.src_lang, directed.tgt_lang, directed))
        self.sources = list(dict.fromkeys(route.source for route in self.routes))
        """The distinct source languages, in the order of the models."""
        self.languages = list(dict.fromkeys([*self.sources, *(route.target for route in self.routes)]))
        """The distinct languages, sources first."""

    def targets(self, source: str) -> list[str]:
        """Return the target languages of a source language."""
        return list(dict.fromkeys(route.target for route in self.routes if route.source == source))

    def find_language(self, code: str) -> str:
        """Return the server's code of a language, which a client may write in another standard."""
        if found := find_language(code, self.languages):
            return found
        raise ApiError(f"{code[:40]} is not supported: this server has {', '.join(self.languages)}.")

    def find(self, source: str, target: str, model: str | None = None) -> Route:
        """Return the model with this name, or the first one, for two languages of the server.

        Raises:
            ApiError: if there is no such model.
        """
        if model is not None and model not in self.names:
            raise ApiError(f"{model[:100]} is not a model of this server: it has {', '.join(self.names)}.")
        routes = [route for route in self.routes if model in (None, route.model)]
        for route in routes:
            if (route.source, route.target) == (source, target):
                return route
        known = ", ".join(dict.fromkeys(f"{route.source}-{route.target}" for route in routes))
        raise ApiError(
            f"{language_name(target)} ({target}) is not available as a target language from {language_name(source)} "
            f"({source}): {model or 'this server'} has {known}."
        )


def default_names(paths: Sequence[Path]) -> list[str]:
    """Return a name for each run or model folder: NAME of ``runs/NAME/TIME``, with a number if names are equal."""
    names: list[str] = []
    for path in paths:
        folders = [part for part in path.resolve().parts if part != "model"]
        is_time = len(folders) > 1 and re.fullmatch(r"\d{4}-\d\d-\d\d[\d_T-]*", folders[-1])
        name = folders[-2] if is_time else folders[-1]
        numbered = (name if number == 1 else f"{name}-{number}" for number in count(1))
        names.append(next(each for each in numbered if each not in names))
    return names
