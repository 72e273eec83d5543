"""Other users of a plan: ``heed check``, ``heed prepare``, and in Python `heed.train` and `heed.check`."""

import signal
import sys
import threading
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib import parse

from heed import launch
from heed.data.pairs.pairs import encode
from heed.data.text.corpus import Text
from heed.data.text.formats.sources import read_text
from heed.data.text.source import Source
from heed.errors import HeedError
from heed.evaluation.diagnosis import describe, diagnose
from heed.evaluation.parallel_text import ENOUGH, Fault, Sides, find_faults
from heed.files import is_device, replacing, write_file
from heed.launch import HEED_TRAIN
from heed.launch.compose import compose, expand, flags_last, quote
from heed.launch.errors import explained
from heed.launch.finish import run_facts
from heed.launch.plan import check_options, read_corpus, settle
from heed.launch.processes import leave_process_group
from heed.launch.run import build
from heed.progress import progress_bar
from heed.runs.trained import TrainedRun
from heed.training.callbacks.diagnosis import known_facts, sample_text
from heed.training.callbacks.stopping import SIGNALS, Interrupted

NAMED_RANGES = 5  # lines or ranges of lines that are named for each fault


def check(
    overrides: Sequence[str], *, lines: Path | None = None, write: Path | None = None, with_sets: bool = True
) -> Iterator[str]:
    """Yield what is wrong with the text of ``heed train OVERRIDES``, and with the training, line by line.

    ``with_sets``: examine validation and test sets too. For the other arguments and the errors see `heed.check`.
    """
    for path in filter(None, (lines, write)):
        if path.exists() and not is_device(path):
            raise HeedError(f"{path} already exists: name a new file for --lines, and a new folder for --write.")
    overrides = flags_last([*overrides, "logger=none", "test=false"])
    sys.argv = [HEED_TRAIN, *overrides]  # messages name the program whose options these are
    with explained(overrides):
        plan = settle(compose(expand(overrides)))
        trainer, module, data = build(plan, Path("unused"))
    planned = run_facts(trainer, module, data, auto=plan.auto)
    yield from (f"{name + ':':<10}{planned[name]}" for name in planned if name not in ("Options", "Devices"))
    facts = known_facts(trainer, module, data, fine_tuned=plan.options["init_from"] is not None)
    yield from diagnose(facts).values()
    corpus, table = data.corpus, list[tuple[str, int, str]]()
    unit = "line"
    for text in corpus.train.texts:
        of_direction = (each.text for each in corpus.valid.values() if each.direction == text.direction)
        valid, first = next((Sides(each.src, each.tgt) for each in of_direction), Sides([], [])), 0
        for source in text.sources:
            unit = unit if getattr(source, "read", None) is read_text else "pair"
            blocks = _blocks(source, text, first, with_dropped=lines is not None)
            first += yield from _examine(source.name, blocks, valid, table, unit=unit)
    sets = {**corpus.valid, **corpus.tests} if with_sets else {}
    samples = {direction: sample_text(corpus, direction) for direction in {each.direction for each in sets.values()}}
    for name, (sentences, direction) in sets.items():
        whole = [(Sides(sentences.src, sentences.tgt), dict[int, str]())]
        yield from _examine(name, whole, samples[direction], table, unit=unit, split=name)
    if lines:
        rows = ("\t".join((" ".join(name.split()), str(number), fault)) for name, number, fault in table)
        content = "".join(f"{row}\n" for row in (f"text\t{unit}\tfault", *rows))
        write_file(lines, content.encode("utf-8", "surrogateescape"), into_devices=True)
        yield f"{lines} lists {len(table):,} faults of {unit}s, and {unit}s that cleaning drops."
    if write:
        yield from _write_kept(write, corpus.train.texts)


def _blocks(source: Source, text: Text, first: int, *, with_dropped: bool) -> Iterator[tuple[Sides, Mapping[int, str]]]:
    """Yield the pairs of an input, after the ``first`` pairs of its text, and the rules that drop some by place."""
    with progress_bar(f"Examining {source.name:.60}", total=source.size, unit="B") as bar:
        for block in source.blocks(bar.update):
            block = block.swapped() if text.clean.rules.swapped else block
            yield Sides(block.src, block.tgt), text.clean.dropped(block, first) if with_dropped else {}
            first += len(block)


def _examine(
    name: str,
    blocks: Iterable[tuple[Sides, Mapping[int, str]]],
    other: Sides,
    table: list[tuple[str, int, str]],
    *,
    unit: str,
    split: str = "",
) -> Generator[str, None, int]:
    """Yield a line for each fault of a text, with the first lines that have it; return the number of pairs.

    All faulty lines are added to ``table``, with the name of the text. For ``other`` and ``split`` see `find_faults`.
    """
    rows: defaultdict[str, list[int]] = defaultdict(list)
    affected: defaultdict[str, float] = defaultdict(float)
    pairs = learned = 0
    for text, dropped in blocks:
        marked = [(pairs + row + 1, f"dropped: {rule}") for row, rule in dropped.items()]
        for fault in find_faults(text, other, split):
            rows[fault.name] += [pairs + row + 1 for row in fault.rows]
            marked += [(pairs + row + 1, fault.name) for row in fault.rows]
            affected[fault.name] += fault.share * len(text)
        table += [(name, *each) for each in sorted(marked)]
        pairs += len(text)
        learned = max(learned, len(other if split else text))
    for kind, number in affected.items():
        where = f", {unit}{'s' * (len(rows[kind]) > 1)} {_ranges(rows[kind])}" if rows[kind] else ""
        yield f"{name}{where}: {describe(Fault(kind, number / pairs, split=split))}"
    if not affected:
        yield f"{name}: no fault found in {pairs:,} pairs."
    if learned < ENOUGH:
        yield (
            f"{name}: swapped, untranslated, shifted and unrelated lines and third languages were not looked for, "
            f"which takes {ENOUGH} training pairs."
        )
    return pairs


def _ranges(rows: Sequence[int]) -> str:
    """Return ascending numbers as ranges: the first `NAMED_RANGES` of them, and how many numbers there are."""
    groups = [[row for _, row in group] for _, group in groupby(enumerate(rows), lambda item: item[1] - item[0])]
    ranges = [f"{group[0]:,}" + f"–{group[-1]:,}" * (len(group) > 1) for group in groups]
    rest = f", … ({len(rows):,} in all: --lines FILE lists them)" * (len(ranges) > NAMED_RANGES)
    return ", ".join(ranges[:NAMED_RANGES]) + rest


def _write_kept(folder: Path, texts: Sequence[Text]) -> Iterator[str]:
    """Write the pairs of each text that cleaning keeps to two files, and yield their names."""
    with replacing(folder) as unfinished:
        unfinished.mkdir()
        for text in texts:
            src_lang, tgt_lang = text.direction
            languages = ("src", "tgt") if src_lang == tgt_lang else (src_lang, tgt_lang)
            src, tgt = (parse.quote(f"{text.name or 'train'}.{language}", safe="") for language in languages)
            with (unfinished / src).open("wb") as src_file, (unfinished / tgt).open("wb") as tgt_file:
                for block in map(text.read, text.clean.blocks):
                    src_file.write("".join(f"{line}\n" for line in block.src).encode())
                    tgt_file.write("".join(f"{line}\n" for line in block.tgt).encode())
            yield f"{folder / src} and {folder / tgt} have the {len(text.clean):,} pairs that cleaning keeps."


def prepare(words: Sequence[str]) -> str:
    """Prepare the text of ``heed train WORDS``, and return a report.

    Raises:
        HeedError: if an option is wrong or the data cannot be read.
    """
    sys.argv = [HEED_TRAIN, *words]  # messages name the program whose options these are
    with explained(words):
        words = flags_last(words)
        options, parts = check_options(compose(words).options)
    corpus, tokenizer = read_corpus(options, parts)
    lines = []
    for text in corpus.train.texts:
        pairs = encode(text, tokenizer)
        src, tgt = pairs.chunk_tokens.sum(axis=0).tolist()
        lines += [
            f"Prepared: {text.name}{': ' if text.name else ''}{len(pairs):,} pairs with {src:,} source and "
            f"{tgt:,} target tokens",
            f"Folder:   {pairs.folder}",
            f"Digest:   {pairs.digest}",
        ]
    return "\n".join([*lines, f"Text:     {corpus.digest}"])


# ---- from Python and notebooks


def train(*overrides: str, **options: Any) -> TrainedRun:
    """Train a model as ``heed train`` does, and return the finished run.

    The first Ctrl-C, or "Interrupt" in a notebook, saves a checkpoint; ``heed.train(resume=RUN)`` continues the run. A
    second one ends the whole process.

    Args:
        overrides: as on the command line: ``"model=rnn"``, ``"trainer.max_steps=100"``.
        options: the same as arguments: ``model="rnn"``, ``**{"data.train": [["a.en", "a.de"]]}``.

    Raises:
        HeedError: if the command would end with a message for the user.
        KeyboardInterrupt: if the run was interrupted.
    """
    try:
        with _as_command(overrides, options) as words, explained(words):
            run = launch.train(compose(expand(words)))
            assert run is not None  # only a search ends a run early
            return run
    except Interrupted as interrupted:
        raise KeyboardInterrupt from interrupted
    finally:
        leave_process_group()


def check_corpus(
    *overrides: str, lines: str | Path | None = None, write: str | Path | None = None, **options: Any
) -> list[str]:
    """Return what ``heed check`` prints about a corpus: sizes, and one line for each fault (`heed.check`).

    Args:
        overrides, options: as for `heed.train`: ``data="files"``, ``**{"data.train": [["a.en", "a.de"]]}``.
        lines: file for a table of all faulty lines, and of those that cleaning drops.
        write: folder for the pairs that cleaning keeps.

    Raises:
        HeedError: if an option is wrong, the data cannot be read, or ``lines`` or ``write`` exists.
    """
    with _as_command(overrides, options) as words:
        table, folder = (None if path is None else Path(path) for path in (lines, write))
        return list(check(words, lines=table, write=folder))


@contextmanager
def _as_command(overrides: Sequence[str], options: Mapping[str, Any]) -> Iterator[list[str]]:
    """Let this process be ``heed train`` inside the block, for messages and Lightning's processes; yield its words."""
    words = flags_last([*overrides, *(f"{name}={quote(value)}" for name, value in options.items())])
    main, argv = sys.modules["__main__"], sys.argv
    spec, handlers = getattr(main, "__spec__", None), {number: signal.getsignal(number) for number in SIGNALS}
    launch.become_heed_train(words)
    try:
        yield words
    finally:
        sys.argv, main.__spec__ = argv, spec
        if threading.current_thread() is threading.main_thread():  # Lightning leaves those of a run
            for number, handler in handlers.items():
                signal.signal(number, handler)
