"""The training recipes of conf/experiment: what each changes, and why."""

from docs.figures import markdown_table
from docs.options import CONF, escape, read


def markdown() -> str:
    """Return a section for each recipe with a table of its differences."""
    parts = []
    for path in sorted((CONF / "experiment").glob("*.yaml")):
        file = read(path)
        parts += [f"## {path.stem}", escape(file.description), f"```sh\nheed train experiment={path.stem}\n```"]
        if file.parents:
            parts.append(f"Starts from {', '.join(f'`{parent}`' for parent in file.parents)}.")
        choices = [[f"`{group}={choice}`", ""] for group, choice in file.overrides]
        changes = [[f"`{option.name}={option.default}`", escape(option.reason)] for option in file.options]
        parts.append(markdown_table(["change", "reason"], [*choices, *changes]))
    return "\n\n".join(parts)
