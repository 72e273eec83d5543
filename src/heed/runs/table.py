"""The table of runs that ``heed runs`` and every grid print."""

import csv
import io
import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from heed.errors import HeedError
from heed.run_format import RunFormatError
from heed.runs.checkpoints import METRICS_FILE
from heed.runs.config import GRID_FILE, HYDRA_FOLDER, RUN_CONFIG, read_overrides
from heed.runs.folder import FAILURE, find_state
from heed.runs.records import read_csv
from heed.runs.results import RESULTS, direction_of, read_results, read_split

RunRow = dict[str, Any]

COLUMNS: Mapping[str, tuple[str, str]] = tomllib.loads(
    Path(__file__).with_name("columns.toml").read_text(encoding="utf-8")
)
"""Title and format of each column, in order, by the key of a row."""

COPIED_FIELDS = ("name", "model", "data", "seed", "params", "steps", "epochs", "tokens_per_second", "weights", "git")
"""Fields of results.json that are copied to a row."""

MAX_SETTINGS = 80  # characters of the settings in the table

SMALLEST_FIRST = {"params", "minutes", "valid_loss", "test_loss"}


def read_runs(folder: Path) -> list[RunRow]:
    """Return one row for each run at or under ``folder``, sorted by path.

    The scores of a finished run are those of its results. An unfinished run has its last step and its best validation
    BLEU so far, by greedy search. Unknown values are None. ``settings`` are the overrides that differ among the jobs of
    a grid, or among single runs, without ``name=``; ``varied`` has those of a grid's job by name, and is None for a
    single run.

    Raises:
        HeedError: if there is no run.
    """
    rows = [_row(run) | {"run": str(run.relative_to(folder))} for run in _find_runs(folder)] if folder.is_dir() else []
    if not rows:
        raise HeedError(f"{folder} holds no runs: `python train.py` makes them in the folder runs.")
    groups: dict[Path | None, list[RunRow]] = {}
    for row in rows:
        parent = (folder / row["run"]).parent
        groups.setdefault(parent if (parent / GRID_FILE).is_file() else None, []).append(row)
    for grid, group in groups.items():
        common = set.intersection(*(set(row["overrides"]) for row in group))
        for row in group:
            own = [o for o in row["overrides"] if o not in common and not o.startswith("name=")]
            row["settings"] = " ".join(own)
            row["varied"] = {name: value for name, _, value in (o.partition("=") for o in own)} if grid else None
    return rows


def sort_runs(rows: Sequence[RunRow], key: str) -> list[RunRow]:
    """Sort rows by a column of `COLUMNS`: best values first, unknown last, text in natural order (2_rnn, 10_rnn)."""
    if key not in COLUMNS:
        raise HeedError(f"Runs cannot be sorted by {key!r}: choose one of {', '.join(COLUMNS)}.")
    known = [row for row in rows if row[key] is not None]
    if key in ("run", "settings", "state"):
        known.sort(key=lambda row: [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", row[key])])
    else:
        known.sort(key=lambda row: row[key], reverse=key not in SMALLEST_FIRST)
    return known + [row for row in rows if row[key] is None]


def runs_table(rows: Sequence[RunRow], style: str = "text") -> str:
    """Format rows under their titles; see `format_table`. Long settings are shortened; empty columns are left out."""
    columns: list[tuple[str, str, list[str]]] = []
    for key, (title, form) in COLUMNS.items():
        if key == "settings":
            columns += _settings_columns(rows)
        else:
            cells = ["" if row[key] is None else format(row[key], form) for row in rows]
            # A terminal is narrow: chrF and loss follow the BLEU of their set.
            follows = style == "text" and key.endswith(("_chrf", "_loss"))
            columns.append((">" if form else "<", title.partition(" ")[2] if follows else title, cells))
    return _format_columns(columns, style)


def _settings_columns(rows: Sequence[RunRow]) -> list[tuple[str, str, list[str]]]:
    """Return a column for each option that a grid varies, or one for all if the rows are not the jobs of one grid."""
    if not _is_one_grid(rows):
        return [("<", "settings", [_shorten(row["settings"] or "") for row in rows])]
    names = dict.fromkeys(name for row in rows for name in row["varied"])
    return [("<", name, [_shorten(row["varied"].get(name, "")) for row in rows]) for name in names]


def _is_one_grid(rows: Sequence[RunRow]) -> bool:
    return all(row["varied"] is not None for row in rows) and len({Path(row["run"]).parent for row in rows}) == 1


def group_by_setting(rows: Sequence[RunRow]) -> list[list[RunRow]]:
    """Return the finished runs of each folder and setting, one for each seed."""
    groups: dict[tuple[str, ...], dict[int, RunRow]] = {}
    for row in rows:
        if row["seed"] is not None and row["valid_bleu"] is not None:
            others = [o for o in row["overrides"] if not o.startswith("seed=")]
            key = (str(Path(row["run"]).parent), str(row["data"]), str(row["model"]), *others)
            groups.setdefault(key, {}).setdefault(row["seed"], row)
    return [list(by_seed.values()) for by_seed in groups.values()]


def seed_table(rows: Sequence[RunRow], folder: Path, style: str = "text") -> str:
    """Format the mean ± standard deviation of BLEU over finished runs of one folder that differ only in their seed.

    Each setting with two or more seeds has a line; without any, return "". Of a grid, a line also has the difference of
    its test BLEU from that of the first line, with its p-value. ``folder`` is where the paths of the rows start.
    """
    lines = [line for line in group_by_setting(rows) if len(line) > 1]
    if not lines:
        return ""
    firsts = [without_seed(line[0]) for line in lines]
    is_grid = _is_one_grid(firsts)
    columns = [] if is_grid else [("<", "runs", [str(Path(row["run"]).parent) for row in firsts])]
    columns += _settings_columns(firsts)
    columns.append((">", "seeds", [str(len(line)) for line in lines]))
    for score in ("valid_bleu", "test_bleu"):
        spreads = [_mean_and_deviation([row[score] for row in line]) for line in lines]
        columns.append((">", COLUMNS[score][0], spreads))
    if is_grid and (found := compare_with_first([[folder / row["run"] for row in line] for line in lines])):
        columns.append((">", "difference", ["", *(f"{value:+.2f}" for value, _ in found)]))
        columns.append((">", "p", ["", *("< 0.001" if p < 0.001 else f"{p:.3f}" for _, p in found)]))
    return _format_columns(columns, style)


def compare_with_first(groups: Sequence[Sequence[Path]]) -> list[tuple[float, float]]:
    """Return the difference of each further group's mean test BLEU from that of the first group, and its p-value.

    Each group is a configuration with several seeds. p is adjusted for the number of groups (Holm). The test set is the
    first one of the first run. Return nothing if the runs have no common test set.
    """
    from heed.evaluation.significance import bleu_of_sums, difference, holm, resample, sentence_statistics

    try:
        results = read_results(groups[0][0] / RESULTS)
        split = next(iter(results["tests"]))
        tgt_lang = direction_of(results, split).tgt_lang
        references, *copies = [read_split(run, split, "ref") for group in groups for run in group]
        translations = [[read_split(run, split, "hyp") for run in group] for group in groups]
    except (HeedError, OSError, KeyError, ValueError, StopIteration):  # copied, damaged or untested runs
        return []
    lengths = {len(hypotheses) for group in translations for hypotheses in group}
    if lengths != {len(references)} or any(copy != references for copy in copies):
        return []
    first, *others = (
        resample([sentence_statistics(each, references, tgt_lang=tgt_lang)["BLEU"] for each in group], bleu_of_sums)
        for group in translations
    )
    found = [difference(other, first) for other in others]
    return [(each.value, p) for each, p in zip(found, holm([each.p for each in found]), strict=True)]


def without_seed(row: RunRow) -> RunRow:
    """Return the row without the seed among its settings."""
    settings = " ".join(o for o in row["settings"].split() if not o.startswith("seed="))
    varied = row["varied"] and {name: value for name, value in row["varied"].items() if name != "seed"}
    return row | {"settings": settings, "varied": varied}


def _mean_and_deviation(values: Sequence[float | None]) -> str:
    """Format the mean and the sample standard deviation. Empty if a value is unknown."""
    known = [value for value in values if value is not None]
    return f"{mean(known):.2f} ± {stdev(known):.2f}" if len(known) == len(values) else ""


def _format_columns(columns: Iterable[tuple[str, str, Sequence[str]]], style: str) -> str:
    """Format columns (side, title, cells), without those that are empty; see `format_table`."""
    shown = [column for column in columns if any(column[2])]
    lines = [[title for _, title, _ in shown], *zip(*(cells for _, _, cells in shown), strict=True)]
    return format_table(lines, "".join(side for side, _, _ in shown), style)


def format_table(lines: Sequence[Sequence[str]], sides: str, style: str = "text") -> str:
    """Format the lines of a table.

    Args:
        lines: the cells of each line. The first line has the titles.
        sides: "<" for each column of text and ">" for each column of numbers.
        style: "text" for aligned columns; or "markdown", "latex" or "csv".
    """
    if style == "csv":
        csv.writer(file := io.StringIO(), lineterminator="\n").writerows(lines)
        return file.getvalue().rstrip("\n")
    if style == "markdown":
        head, *rows = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
        return "\n".join([head, "|" + "|".join(":--" if side == "<" else "--:" for side in sides) + "|", *rows])
    if style == "latex":
        head, *rows = [" & ".join(re.sub(r"[&%$#_{}]", r"\\\g<0>", cell) for cell in line) + r" \\" for line in lines]
        rules = [r"\toprule", head, r"\midrule", *rows, r"\bottomrule"]
        text = "\n".join(rules).replace("±", r"$\pm$").replace("<", "$<$").replace("−", "$-$")
        columns = sides.replace("<", "l").replace(">", "r")
        return f"% \\usepackage{{booktabs}}\n\\begin{{tabular}}{{{columns}}}\n{text}\n\\end{{tabular}}"
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    forms = [f"{side}{width}" for side, width in zip(sides, widths, strict=True)]
    return "\n".join("  ".join(map(format, line, forms)).rstrip() for line in lines)


def _shorten(settings: str) -> str:
    """Cut out the middle of long settings, such as the paths of ``data.train``."""
    return settings if len(settings) <= MAX_SETTINGS else f"{settings[: MAX_SETTINGS - 30]}…{settings[-29:]}"


def _find_runs(folder: Path) -> Iterator[Path]:
    """Yield run folders. Folders inside a run, such as its model, are not searched."""
    if any((folder / file).is_file() for file in (RUN_CONFIG, FAILURE)):
        yield folder
        return
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink() and path.name != HYDRA_FOLDER:
            yield from _find_runs(path)


def _row(run: Path) -> RunRow:
    words = [word for word in read_overrides(run) if not word.startswith("resume=")]
    row: RunRow = dict.fromkeys((*COPIED_FIELDS, *COLUMNS)) | {"overrides": words}
    if (run / RESULTS).is_file():
        try:
            results = read_results(run / RESULTS)
            scores = {
                f"{split}_{key}": results[split][key]
                for split in ("valid", "test")
                if results[split]
                for key in ("bleu", "chrf", "loss")
            }
            minutes = results["train_seconds"] / 60
            return row | {key: results[key] for key in COPIED_FIELDS} | scores | {"minutes": minutes, "state": ""}
        except RunFormatError:
            return row | {"state": "written by another version of heed"}
        except (HeedError, KeyError):
            return row | {"state": f"{RESULTS} cannot be read"}
    if (run / METRICS_FILE).is_file():
        try:
            steps = read_csv(run / METRICS_FILE)
            bleu = [score for step in steps if step["valid_bleu"] and math.isfinite(score := float(step["valid_bleu"]))]
            row |= {"steps": int(steps[-1]["step"]) if steps else 0, "valid_bleu": max(bleu, default=None)}
        except (OSError, ValueError, KeyError, TypeError, csv.Error):
            row["state"] = f"{METRICS_FILE} cannot be read"
    return row | {"state": row["state"] or ": ".join(filter(None, find_state(run)))}
