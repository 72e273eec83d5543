"""``heed translate``: text in, text out."""

import argparse

from heed.cli.common import (
    LINES_AT_ONCE,
    Command,
    add_model_options,
    add_search_options,
    load_translator,
    read_lines,
    search_options,
    standard_input,
    with_progress,
    write_lines,
)


def _translate_options(parser: argparse.ArgumentParser) -> None:
    add_model_options(parser, several=True)
    add_search_options(parser)
    parser.add_argument(
        "--n-best",
        type=int,
        metavar="N",
        help="N translations a line, as `line number (from 0) ||| text ||| score`",
    )


def _translate(args: argparse.Namespace) -> None:
    stream = standard_input()
    translator = load_translator(args, **search_options(args), n_best=args.n_best)
    # Who types wants an answer to every line.
    chunk = 1 if stream.isatty() else LINES_AT_ONCE
    sentences = read_lines(stream, "the input")
    if args.n_best is None:
        write_lines(with_progress(translator.stream(sentences, chunk=chunk)))
        return
    for number, n_best in enumerate(with_progress(translator.stream_n_best(sentences, chunk=chunk))):
        write_lines(f"{number} ||| {t.text} ||| {t.hypothesis.score:.4f}" for t in n_best)


COMMAND = Command("translate", "Translate stdin to stdout, line by line.", _translate_options, _translate)
