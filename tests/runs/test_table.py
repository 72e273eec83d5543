"""Tables as text, and in the formats of other documents."""

import csv
import io

import pytest

from heed.runs.table import COLUMNS, format_table, runs_table

LINES = [["settings", "BLEU"], ["a|b & c_d", "31.20 ± 0.10"], ["50 % of {x}", "< 1"], ['a "quoted", text', ""]]
EXPECTED = {
    "text": [
        "settings                  BLEU",
        "a|b & c_d         31.20 ± 0.10",
        "50 % of {x}                < 1",
        'a "quoted", text',
    ],
    "markdown": [
        "| settings | BLEU |",
        "|:--|--:|",
        r"| a\|b & c_d | 31.20 ± 0.10 |",
        "| 50 % of {x} | < 1 |",
        '| a "quoted", text |  |',
    ],
    "latex": [
        r"% \usepackage{booktabs}",
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"settings & BLEU \\",
        r"\midrule",
        r"a|b \& c\_d & 31.20 $\pm$ 0.10 \\",
        r"50 \% of \{x\} & $<$ 1 \\",
        r'a "quoted", text &  \\',
        r"\bottomrule",
        r"\end{tabular}",
    ],
}


@pytest.mark.parametrize("style", EXPECTED)
def test_a_table_in_each_style(style: str) -> None:
    assert format_table(LINES, "<>", style).split("\n") == EXPECTED[style]


def test_csv_is_read_back() -> None:
    assert [*csv.reader(io.StringIO(format_table(LINES, "<>", "csv")))] == LINES


def test_columns_of_other_documents_have_titles_of_their_own() -> None:
    row = {key: 1 if form else "x" for key, (_, form) in COLUMNS.items()} | {"run": "a/b", "varied": None}
    for style, separator in (("csv", ","), ("latex", " & "), ("markdown", " | ")):
        (head,) = [line for line in runs_table([row], style).splitlines() if "valid BLEU" in line]
        titles = [title.strip("| \\") for title in head.split(separator)]
        assert len({*titles}) == len(titles) == len(COLUMNS)
    in_terminal = " ".join(runs_table([row]).splitlines()[0].split())
    assert in_terminal.endswith("valid BLEU chrF loss test BLEU chrF loss state")
