"""The table and the figure of a grid, from the folders of its runs."""

import sys
from pathlib import Path
from textwrap import fill

from heed.plot import spreads
from heed.plot.fonts import save_figure
from heed.progress import print_line
from heed.runs.table import COLUMNS, group_by_setting, read_runs, runs_table, seed_table, sort_runs, without_seed

TABLE = "sweep.txt"
FIGURES = ("sweep.svg", "sweep.pdf")
LABEL_WIDTH = 44  # letters in a line of the labels of the figure


def write_table(folder: Path, *, minutes: float) -> None:
    """Write the table of a grid's runs, best first, and means over seeds."""
    best_first = sort_runs(read_runs(folder), "valid_bleu")
    seeds = seed_table(sort_runs(best_first, "run"), folder)
    tables = [runs_table(best_first), seeds, f"{minutes:.1f} minutes for {len(best_first)} jobs"]
    (folder / TABLE).write_text("\n\n".join(filter(None, tables)) + "\n", encoding="utf-8")


def print_grid(folder: Path) -> None:
    """Print the table, and draw the figure, unless the folder was removed."""
    if not (folder / TABLE).exists():
        return
    text = (folder / TABLE).read_text(encoding="utf-8")
    print(f"\nSweep {folder / TABLE}\n\n{text}", file=sys.stderr, end="", flush=True)
    for path in draw_scores(folder):
        print_line(f"Figure {path}")


def draw_scores(folder: Path) -> list[Path]:
    """Draw the BLEU of each setting of a grid, over its seeds, and return the files; none for a single setting."""
    lines = group_by_setting(sort_runs(read_runs(folder), "run"))
    is_tested = all(row["test_bleu"] is not None for line in lines for row in line)
    score = "test_bleu" if is_tested else "valid_bleu"
    names = [fill(without_seed(line[0])["settings"] or line[0]["model"], LABEL_WIDTH) for line in lines]
    groups = {name: [row[score] for row in line] for name, line in zip(names, lines, strict=True)}
    if len(groups) < 2:
        return []
    from matplotlib.figure import Figure

    figure = Figure((7, 1.2 + 0.35 * len(groups)), layout="constrained")
    several = any(len(scores) > 1 for scores in groups.values())
    over = "mean ± standard deviation over seeds" if several else "one seed"
    spreads(groups, x=f"{COLUMNS[score][0]}, {over}", ax=figure.subplots())
    for path in (paths := [folder / name for name in FIGURES]):
        save_figure(figure, path)
    return paths
