"""The commands of ``heed`` and their arguments, from the argument parsers."""

import argparse
from collections.abc import Iterator

from docs.figures import markdown_table
from heed.cli import build_parser


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command by its name."""
    actions = build_parser()._actions
    commands = next(action for action in actions if isinstance(action, argparse._SubParsersAction))
    return dict(commands.choices)


def markdown() -> str:
    """Return a section for each command: what it does, and tables of its arguments. A repeated table is only named."""
    parts, first = [], dict[str, str]()
    for name, parser in parsers().items():
        parts += [f"## heed {name}", _plain(parser.description or "")]
        for group in parser._action_groups:
            actions = [action for action in group._group_actions if not isinstance(action, argparse._HelpAction)]
            if not actions:
                continue
            title = (group.title or "").capitalize()
            table = markdown_table(["argument", "meaning"], [list(_row(action)) for action in actions])
            if (owner := first.setdefault(table, name)) != name and group.description:
                parts.append(f"{title}: as for [heed {owner}](#heed-{owner}).")
                continue
            parts += [*([f"{title}. {_plain(group.description)}"] if group.description else []), table]
    return "\n\n".join(parts)


def _row(action: argparse.Action) -> Iterator[str]:
    """Yield an argument as written on the command line, and what it means."""
    metavar = action.metavar or ("|".join(map(str, action.choices)) if action.choices else action.dest.upper())
    metavar = metavar if isinstance(metavar, str) else " ".join(metavar)
    takes_value = action.nargs != 0
    words = [*action.option_strings[-1:], *([metavar] if takes_value else [])]
    required = " **Required.**" if action.required and action.option_strings else ""
    yield f"`{' '.join(words)}`".replace("|", "\\|")
    choices = ", ".join(map(str, action.choices or ()))  # as argparse writes them
    yield _plain((action.help or "") % {**vars(action), "choices": choices, "prog": "heed"}) + required


def _plain(text: str) -> str:
    """Return help text as Markdown: one line, without the characters that end a table cell."""
    return " ".join(text.split()).replace("|", "\\|")
