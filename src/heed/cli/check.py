"""``heed check``: what is wrong with a corpus, before it is trained on."""

import argparse
import os
from pathlib import Path

from heed.cli.lines import write_lines
from heed.errors import HeedError


def add_options(parser: argparse.ArgumentParser) -> None:
    text = "source and target file, or one file with both sides; and options of heed train, such as data=tatoeba"
    parser.add_argument("data", metavar="DATA", help=text, nargs="*")
    text = "validation set, one file or two; without it, the training text is compared with itself"
    parser.add_argument("--valid", metavar="FILE", help=text, nargs="+", default=[])
    parser.add_argument("--config-dir", metavar="DIR", help="a folder with presets of your own")
    text = "write a table of all faulty lines: text, line and fault, also of the lines that cleaning drops"
    parser.add_argument("--lines", metavar=("FILE", "DATA"), help=text, nargs="+", default=[])
    text = "write the training pairs that cleaning keeps to a new folder"
    parser.add_argument("--write", metavar=("DIR", "DATA"), help=text, nargs="+", default=[])


def run(args: argparse.Namespace) -> None:
    from heed.launch.check import check

    # argparse allows no DATA after an option but as its values.
    lines, write = (Path(words[0]) if words else None for words in (args.lines, args.write))
    data = [*args.data, *args.lines[1:], *args.write[1:]]
    options = [word for word in (*data, *args.valid) if _is_option(word)]
    train, valid = ([word for word in words if not _is_option(word)] for words in (data, args.valid))
    if not (train or options):
        raise HeedError("heed check: give a source and a target file, or options of heed train, such as data=tatoeba.")
    if train:
        entries = [[files] if len(files) == 2 else files for files in (train, valid or train)]
        given = ["data=files", f"data.train={entries[0]}", f"data.valid={entries[1]}", "data.test=null"]
        options = [*given, *([] if valid else ["data.cleaning.drop_leaked=false", "data.max_eval=1000"]), *options]
    with_sets = bool(valid) or not train
    options += [f"--config-dir={args.config_dir}"] if args.config_dir else []
    write_lines(check(options, lines=lines, write=write, with_sets=with_sets))


def _is_option(word: str) -> bool:
    return "=" in word and not os.path.exists(word)  # noqa: PTH110 - an option can be too long for Path.exists
