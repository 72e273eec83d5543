"""``heed translate``: translate standard input."""

import argparse

from heed.cli.arguments import Command, add_model_options, add_search_options, load_translator, search_options
from heed.cli.lines import LINES_AT_ONCE, read_lines, standard_input, translator_progress, write_lines


def _add_options(parser: argparse.ArgumentParser) -> None:
    add_model_options(parser, several=True)
    parser.add_argument(
        "--n-best",
        type=int,
        metavar="N",
        help="print N translations per line, as `line number from 0 ||| translation ||| score`",
    )
    add_search_options(parser)


def _run(args: argparse.Namespace) -> None:
    stream = standard_input()
    translator = load_translator(args)
    chunk = 1 if stream.isatty() else LINES_AT_ONCE  # a line typed at a terminal is translated at once
    sentences = read_lines(stream, "the input")
    found = translator.stream(sentences, chunk=chunk, n_best=args.n_best, **search_options(args))
    with translator_progress(translator, "Translating", prints_results=True):
        for number, translations in enumerate(found):
            if args.n_best is None:
                write_lines([translations[0].text])
            else:
                write_lines(f"{number} ||| {each.text} ||| {each.score:.4f}" for each in translations)


COMMAND = Command("translate", "Translate standard input to standard output, line by line.", _add_options, _run)
