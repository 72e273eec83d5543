"""``heed check``: the faults of a training text with their lines, and what a training would do with it."""

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from heed.data.formats.text_files import TextFiles
from heed.data.text import Source
from heed.evaluation.diagnosis import SENTENCES, diagnose
from heed.evaluation.parallel_text import Fault, Sides, find_faults
from heed.launch.compose import compose
from heed.launch.errors import explained
from heed.launch.program import HEED_TRAIN
from heed.launch.run import assemble, settle
from heed.launch.summary import run_facts
from heed.progress import progress_bar
from heed.training.callbacks.diagnosis import known_facts

EXAMPLES = 5
"""Lines or ranges of lines that are named for each fault."""


def check(overrides: Sequence[str]) -> Iterator[str]:
    """Yield what is wrong with the text of ``heed train OVERRIDES``, and with the training, line by line.

    Raises:
        HeedError: if an option is wrong or the data cannot be read.
    """
    overrides = [*overrides, "logger=none", "test=false"]
    sys.argv = [HEED_TRAIN, *overrides]  # messages name the program whose options these are
    with explained(overrides):
        config, parts, auto, _ = settle(compose(overrides), Path("unused"))
        trainer, module, data = assemble(config, parts, Path("unused"))
    planned = run_facts(trainer, module, data, differences=()) | auto
    yield from (f"{name + ':':<10}{planned[name]}" for name in planned if name not in ("Options", "Devices"))
    facts = known_facts(trainer, module, data, fine_tuned=config["init_from"] is not None)
    yield from diagnose(replace(facts, faults=())).values()
    valid = facts.valid if len(data.corpus.directions) == 1 else Sides([], [])
    for source in (source for part in data.corpus.train.texts for source in part.text.sources):
        yield from _find_faults(source, valid, swapped=parts["data"].reverse)


def _find_faults(source: Source, valid: Sides, *, swapped: bool) -> Iterator[str]:
    """Yield a line for each fault of an input, with the first lines that have it."""
    rows: defaultdict[str, list[int]] = defaultdict(list)
    affected: defaultdict[str, float] = defaultdict(float)
    pairs = 0
    with progress_bar(f"Examining {source.name:.60}", total=source.size, unit="B") as bar:
        for block in source.blocks(bar.update):
            text = Sides(block.tgt, block.src) if swapped else Sides(block.src, block.tgt)
            for fault in find_faults(text, valid):
                rows[fault.name] += [pairs + row + 1 for row in fault.rows]
                affected[fault.name] += fault.share * len(block)
            pairs += len(block)
    unit = "line" if isinstance(source, TextFiles) else "pair"
    for name, number in affected.items():
        where = f", {unit}{'s' * (len(rows[name]) > 1)} {_ranges(rows[name])}" if rows[name] else ""
        yield f"{source.name}{where}: {SENTENCES[name].format(Fault(name, number / pairs))}"
    if not affected:
        yield f"{source.name}: no fault found in {pairs:,} pairs."


def _ranges(rows: Sequence[int]) -> str:
    """Return ascending numbers as ranges: the first `EXAMPLES` of them, and how many numbers there are."""
    groups = [[row for _, row in group] for _, group in groupby(enumerate(rows), lambda item: item[1] - item[0])]
    ranges = [f"{group[0]:,}" + f"–{group[-1]:,}" * (len(group) > 1) for group in groups]
    return ", ".join(ranges[:EXAMPLES]) + f", … ({len(rows):,} in all)" * (len(ranges) > EXAMPLES)
