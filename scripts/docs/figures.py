"""Tables and numbers from docs/results/*.json; their figures are in `docs.drawings`.

A file says what was measured (``what``) and, as far as it applies, with which ``command``, on which ``machine`` and
``date``, with which ``seeds``, and what the ``spread`` is. Numbers keep the digits that they have in the file: 1.50
stays 1.50.
"""

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from experiments.claims import CLAIMS

from heed.evaluation.diagnosis import AT_VALIDATION, BEFORE_TRAINING, SENTENCES

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"
PROVENANCE = ("command", "machine", "date", "seeds", "spread")
"""How the numbers of a file were measured: what of it applies."""


@cache
def load(name: str) -> dict[str, Any]:
    """Return the content of ``docs/results/NAME.json``, its numbers as `Decimal` or int."""
    text = (RESULTS / f"{name}.json").read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text, parse_float=Decimal)
    return content


def show(value: Any) -> str:
    """Return a measured value as text.

    Args:
        value: a number, text, null for no value, a list, or a mapping: ``mean`` and ``sd``; ``median``, ``low`` and
            ``high``; ``difference`` with or without ``low`` and ``high``; ``low`` and ``high``; ``value``; ``list``.
            Each with or without ``unit``.
    """
    if value is None:
        return ""
    if isinstance(value, list):
        return ", ".join(map(show, value))
    if isinstance(value, Mapping):
        unit = f" {value['unit']}" if "unit" in value else ""
        return _show_mapping(value) + unit
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)


def _show_mapping(value: Mapping[str, Any]) -> str:
    if "mean" in value:
        return f"{show(value['mean'])} ± {show(value['sd'])}"
    if "median" in value:
        return f"{show(value['median'])} [{show(value['low'])}, {show(value['high'])}]"
    if "difference" in value:
        difference = _signed(value["difference"])
        return f"{difference} [{_signed(value['low'])}, {_signed(value['high'])}]" if "low" in value else difference
    if "low" in value:
        return f"{show(value['low'])} to {show(value['high'])}"
    return show(value.get("value", value.get("list")))


def _signed(number: Decimal) -> str:
    """Return a number with its sign, the minus as in typeset text."""
    return f"{number:+}".replace("-", "−")


def plain(text: str) -> str:
    """Return Markdown without the marks of code."""
    return text.replace("`", "")


def rows_and_columns(argument: str) -> tuple[str, list[str], list[str]]:
    """Return the file, the rows and the columns of ``NAME rows=a,b columns=x,y``, by default all of them."""
    name, *choices = argument.split()
    chosen = dict(choice.split("=", 1) for choice in choices)
    content = load(name)
    rows, columns = (chosen[key].split(",") if key in chosen else list(content[key]) for key in ("rows", "columns"))
    return name, rows, columns


def table(argument: str) -> str:
    """Return a table of a file as Markdown.

    Args:
        argument: ``NAME``, and optionally ``rows=a,b`` and ``columns=x,y`` for a part of it.
    """
    name, rows, columns = rows_and_columns(argument)
    content = load(name)
    cells = [[content["rows"][row].get(column) for column in columns] for row in rows]
    numeric = [all(not isinstance(row[i], str) for row in cells) for i in range(len(columns))]
    return markdown_table(
        [content["columns"][column] for column in columns], [list(map(show, r)) for r in cells], numeric
    )


def markdown_table(header: list[str], rows: list[list[str]], right: list[bool] | None = None) -> str:
    """Return a Markdown table.

    Args:
        right: for each column, whether it is aligned to the right.
    """
    right = right or [False] * len(header)
    lines = [header, ["---:" if flag else "---" for flag in right], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def value(argument: str) -> str:
    """Return a value as text: ``NAME.KEY`` of ``values``, or ``NAME.ROW.COLUMN``."""
    name, *keys = argument.strip().split(".")
    content = load(name)
    if len(keys) == 1:
        return show(content["values"][keys[0]])
    row, column = keys
    return show(content["rows"][row][column])


def source(argument: str) -> str:
    """Return what a file measures, and one line that says how to repeat it."""
    name = argument.strip()
    content = load(name)
    facts = {key: content[key] for key in PROVENANCE if key in content}
    if "command" in facts and "`" not in facts["command"]:
        facts["command"] = ", ".join(f"`{part}`" for part in facts["command"].split(", and "))
    if "seeds" in facts:
        facts["seeds"] = f"seeds: {facts['seeds']}"
    return f"{content['what']}\n\n" + " · ".join([*facts.values(), f"[{name}.json](results/{name}.json)"])


def claims() -> str:
    """Return a table of all claims, and a section for each."""
    rows = load("claims")["rows"]
    summary = [
        [f"[`{claim.name}`](#{claim.name})", claim.claim, "yes" if rows[claim.name]["held"] else "**no**"]
        for claim in CLAIMS
    ]
    table = markdown_table(["claim", "statement", "held"], summary)
    parts = ["<details markdown>\n<summary>All claims as a table, with links</summary>", table, "</details>"]
    for claim in CLAIMS:
        row = rows[claim.name]
        figures = [[figure["what"], show(figure["value"])] for figure in row["figures"]]
        remark = [row["remark"]] if "remark" in row else []
        parts += [
            f"### {claim.name}",
            f"**{claim.claim}** Held: {'yes' if row['held'] else 'no'}.",
            *remark,
            claim.measurement,
            markdown_table(["measured", "value"], figures, [False, True]),
            *([f"{', '.join(_costs(row))}."] if _costs(row) else []),
        ]
    return "\n\n".join(parts)


def _costs(row: Mapping[str, Any]) -> list[str]:
    """Return how many trainings a claim needs, and their minutes; nothing if it needs none."""
    if not row.get("trainings"):
        return []
    return [f"{row['trainings']} trainings", f"{row['minutes']} minutes of one core"]


def diagnoses() -> str:
    """Return a table of all diagnoses, with "…" for the facts of a run."""
    when = dict.fromkeys(BEFORE_TRAINING, "before the first step") | dict.fromkeys(AT_VALIDATION, "at a validation")
    when |= dict.fromkeys(("worse_than_before", "forgotten"), "after fine-tuning")
    rows = [
        [
            f"`{name}`",
            when.get(name, "before the first step, and `heed check`"),
            re.sub(r"\{.*?\}", "…", sentence.replace("{0.pairs}", "pairs")),
        ]
        for name, sentence in SENTENCES.items()
    ]
    return markdown_table(["name", "when", "what heed says"], rows)


def reference(argument: str) -> str:
    """Return the results of some claims, as a reference for a lab sheet in docs/course/.

    Args:
        argument: names of claims, separated by spaces.
    """
    content, by_name = load("claims"), {claim.name: claim for claim in CLAIMS}
    parts = []
    for name in argument.split():
        row = content["rows"][name]
        facts = [f"held: {'yes' if row['held'] else '**no**'}", *_costs(row)]
        header = f"[`{name}`](../claims.md#{name}): {by_name[name].claim}"
        parts += [
            f"{header} ({', '.join(facts)})",
            markdown_table(
                ["measured", "reference"], [[f["what"], show(f["value"])] for f in row["figures"]], [False, True]
            ),
        ]
    measured = [content["machine"], content["date"], f"seeds: {content['seeds']}", content["spread"]]
    return "\n\n".join([*parts, " · ".join([*measured, "[claims.json](../results/claims.json)"])])
