"""Jinja templates of the pages. Each page is one file: style sheets and scripts are inserted into it."""

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PackageLoader, StrictUndefined
from markupsafe import Markup


def render_template(template: str, *, folder: Path | None = None, **context: Any) -> Markup:
    """Return the HTML of a page or of a part of one. Text in the context is escaped, `Markup` is not.

    Args:
        template: The name of a file in ``templates/``.
        folder: Where to look for templates before ``templates/``.
        context: The variables of the template. An undefined variable is an error.
    """
    return Markup(_environment(folder).get_template(template).render(context))


def side_class(number: int) -> str:
    """Return the CSS class with the colour of a side, a line or a model, counted from 0."""
    return f"side-{number % 6}"


@cache
def _environment(folder: Path | None) -> Environment:
    own = PackageLoader("heed.report")
    environment = Environment(
        loader=ChoiceLoader([FileSystemLoader(folder), own]) if folder else own,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Keeps the order of the maps, and letters of any script as they are.
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}

    def inline(name: str) -> Markup:
        """Return a file that is not a template, such as a style sheet, without escaping it."""
        assert environment.loader is not None
        source, _, _ = environment.loader.get_source(environment, name)
        return Markup(source)

    environment.globals.update(inline=inline, side_class=side_class)
    return environment
