"""The training recipes of conf/experiment: what each changes, and why."""

from pathlib import Path

from docs.figures import markdown_table
from docs.options import CONF, escape, read


def markdown() -> str:
    """Return a section for each recipe with a table of its differences."""
    parts = []
    for path in sorted((CONF / "experiment").glob("*.yaml")):
        file = read(path)
        command = " ".join(["heed train", f"experiment={path.stem}", *_required_options(path)])
        parts += [f"## {path.stem}", escape(file.description), f"```sh\n{command}\n```"]
        if file.parents:
            parts.append(f"Starts from {', '.join(f'`{parent}`' for parent in file.parents)}.")
        choices = [[f"`{group}={choice}`", ""] for group, choice in file.overrides]
        changes = [[f"`{option.name}={option.default}`", escape(option.reason)] for option in file.options]
        parts.append(markdown_table(["change", "reason"], [*choices, *changes]))
    return "\n\n".join(parts)


def _required_options(path: Path) -> list[str]:
    """Return the options that the corpus of a recipe requires, such as ``data.root=DIR``."""
    file = read(path)
    if (corpus := dict(file.overrides).get("data")) is None:
        return [option for parent in file.parents for option in _required_options(path.with_stem(parent))]
    options = read(CONF / "data" / f"{corpus}.yaml").options
    return [f"data.{option.name}=DIR" for option in options if option.reason.startswith("required: DIR")]
