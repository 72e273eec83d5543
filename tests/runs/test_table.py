"""Tables as text, and in the formats of other documents."""

import csv
import io

import pytest

from heed.runs.table import format_table

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
        r"\begin{tabular}{lr}",
        r"\hline",
        r"settings & BLEU \\",
        r"\hline",
        r"a|b \& c\_d & 31.20 $\pm$ 0.10 \\",
        r"50 \% of \{x\} & $<$ 1 \\",
        r'a "quoted", text &  \\',
        r"\hline",
        r"\end{tabular}",
    ],
}


@pytest.mark.parametrize("style", EXPECTED)
def test_a_table_in_each_style(style: str) -> None:
    assert format_table(LINES, "<>", style).split("\n") == EXPECTED[style]


def test_csv_is_read_back() -> None:
    assert [*csv.reader(io.StringIO(format_table(LINES, "<>", "csv")))] == LINES
