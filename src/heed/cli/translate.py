"""``heed translate`` and ``heed synthesize``: translate standard input, a file, or one side of training pairs."""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from itertools import islice, tee
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from heed.cache import file_digest
from heed.cli.arguments import load_translator, search_options
from heed.cli.lines import (
    LINES_AT_ONCE,
    PipeReader,
    path_text,
    read_file,
    read_lines,
    read_text,
    resumable_output,
    standard_input,
    translator_progress,
    write_lines,
    write_text,
)
from heed.errors import HeedError
from heed.evaluation.symptoms import TRANSLATION_SYMPTOMS
from heed.files import write_file
from heed.inference.lines import renumbered

if TYPE_CHECKING:
    from heed.inference.outputs import Translation
    from heed.inference.searches import Protect
    from heed.inference.translator import Translator


PROTECT: "dict[str, Protect]" = {"auto": None, "on": True, "off": False}


def run(args: argparse.Namespace) -> None:
    _check_options(args)
    with ExitStack() as stack:
        stream = stack.enter_context(args.input.open("rb")) if args.input else standard_input()
        translator = load_translator(args)
        _translations(translator, [], args, chunk=1)  # reports wrong options before a file is touched
        if args.format != "text":
            _translate_document(translator, stream, args)
            return
        write: Callable[[Iterable[str]], None] = partial(write_lines, needs_reader=True)
        done = 0
        if args.output:
            settings = _settings(args, translator)
            output = resumable_output(args.output, settings, block=LINES_AT_ONCE, resume=args.resume)
            write, done = stack.enter_context(output)
        # Lines that come slowly, through a pipe or typed at a terminal, are translated at once.
        blocks: dict[str, Any] = {"chunk": 1 if stream.isatty() else LINES_AT_ONCE}
        if pipe := PipeReader.of(stream):
            blocks["is_ready"] = pipe.is_ready
        translate = partial(_translations, translator, args=args, done=done, **blocks)
        shown: dict[str, tuple[int, int]] = {}
        """How many lines show each symptom, and the first one."""
        for number, source, translations in _translated_lines(
            translator, pipe or stream, args.input, translate, done=done, prints_results=not args.output
        ):
            for symptom in translations[0].symptoms:
                count, first = shown.get(symptom, (0, number + 1))
                shown[symptom] = count + 1, first
            write(_format(args, number, source, translations))
    for symptom, (count, first) in shown.items():
        print(f"heed: {_said(symptom, count)}, the first in line {first:,} (--json marks them).", file=sys.stderr)


def _translate_document(translator: "Translator", stream: BinaryIO, args: argparse.Namespace) -> None:
    """Translate the whole input as one document in HTML or Markdown."""
    from heed.documents.document import split_document

    text = read_text(stream, str(args.input or "the input"))
    document = split_document(text, args.format, translator, by_rules=find_spec("sentencex") is not None)
    total = len(document.sentences)
    with translator_progress(translator, "Translating", total=total, prints_results=not args.output):
        blocks: dict[str, Any] = {"chunk": LINES_AT_ONCE, "alignments": document.needs_alignments}
        blocks["protect"] = document.protection(PROTECT[args.protect])
        n_best = list(_translations(translator, document.sentences, args, **blocks))
    ((translated, sentences),) = document.versions(n_best, 1).items()
    if args.output:
        write_file(args.output, translated, into_devices=True)
    else:
        write_text(translated, needs_reader=True)
    shown = Counter(symptom for each in sentences for symptom in each.symptoms)
    for symptom, count in shown.items():
        print(f"heed: {_said(symptom, count)}.", file=sys.stderr)


def synthesize(args: argparse.Namespace) -> None:
    for models, file, names in (
        (args.model, args.src, "--model and --src"),
        (args.reverse_model, args.tgt, "--reverse-model and --tgt"),
    ):
        if bool(models) != bool(file):
            raise HeedError(f"{names} belong together: give both.")
    jobs = [(model, args.src, "tgt") for model in args.model]
    jobs += [(model, args.tgt, "src") for model in args.reverse_model]
    if not jobs:
        raise HeedError(
            "Give a model and the text to translate: --model RUN --src FILE or --reverse-model RUN --tgt FILE."
        )
    args.out.mkdir(parents=True, exist_ok=True)
    for number, (model, file, side) in enumerate(jobs, start=1):
        write_lines([_synthesize(args, args.out / f"{number}.jsonl", model, file, side)])


def _synthesize(args: argparse.Namespace, path: Path, model: Path, file: Path, side: str) -> str:
    """Write the model's ``side`` ("src" or "tgt") of pairs, unless that has been done; return a line that says so."""
    from heed.inference.model_folder import digest

    ignored = ("run", "out", "device", "max_tokens", "model", "reverse_model", "src", "tgt")
    settings = {name: value for name, value in vars(args).items() if name not in ignored}
    settings |= {"model": digest(model), "text": file_digest(file), "side": side}
    manifest = args.out / "manifest.json"
    try:
        entries = json.loads(manifest.read_text(encoding="utf-8")) if manifest.exists() else {}
    except ValueError as error:
        raise HeedError(f"{manifest} is damaged: choose another --out.") from error
    if (path.exists() or path.name in entries) and entries.get(path.name, {}).get("settings") != settings:
        raise HeedError(f"{path} was begun with another model, text or option: choose another --out.")
    if path.exists():
        return f"{path}: complete"
    translator = load_translator(args, model).without_fallbacks()
    engine = type(translator.engine).__name__
    if path.name not in entries:
        facts = {"model": path_text(model), "text": path_text(file), "engine": engine}
        entries[path.name] = {**facts, "settings": settings}
        write_file(manifest, json.dumps(entries, indent=2, ensure_ascii=False) + "\n")
    output = resumable_output(path, {**settings, "engine": engine}, block=LINES_AT_ONCE, resume=True)
    translate = partial(translator.stream_hypotheses, chunk=LINES_AT_ONCE, **search_options(args))
    with file.open("rb") as stream, output as (write, done):
        for _, text, translations in _translated_lines(translator, stream, file, translate, done=done):
            best = translations[0]
            sides = {"src": text, "tgt": best.text} if side == "tgt" else {"src": best.text, "tgt": text}
            write([json.dumps({**sides, "score": round(best.score, 4)}, ensure_ascii=False)])
    return f"{path}: {translator.directions[0]} translations of {path_text(file)}"


def _said(symptom: str, count: int) -> str:
    messages = TRANSLATION_SYMPTOMS[symptom]
    return f"1 translation {messages['one']}" if count == 1 else f"{count:,} translations {messages['several']}"


def _check_options(args: argparse.Namespace) -> None:
    """Refuse combinations of options that contradict each other, before the model is loaded."""
    by_line = ("n_best", "json", "scores", "alignments", "prefix", "prefix_file", "resume", "split_sentences")
    if args.format != "text" and (given := next((name for name in by_line if getattr(args, name)), None)):
        flag = f"--{given.replace('_', '-')}"
        raise HeedError(f"{flag} is for lines, and --format {args.format} translates one document: leave out {flag}.")
    if args.n_best is not None and args.split_sentences:
        raise HeedError("--n-best and --split-sentences do not go together: a line of sentences has one translation.")
    if args.prefix and args.prefix_file:
        raise HeedError("--prefix and --prefix-file do not go together: give one of them.")
    if (args.prefix or args.prefix_file) and args.split_sentences:
        raise HeedError("A prefix and --split-sentences do not go together: a line of sentences has no one beginning.")
    if args.resume and not (args.input and args.output):
        raise HeedError("--resume continues a file: add --input FILE and --output FILE.")
    if args.resume and args.n_best is not None and not args.json:
        raise HeedError("--resume needs one line of output per line: add --json to --n-best.")
    for path in args.model or ():
        if path.is_file() and path.suffix not in (".bin", ".ckpt", ".model", ".safetensors", ".yaml"):
            raise HeedError(f"{path} is a file: give the folder of a run or model; text: --input {path}.")
    if args.output and args.output.is_dir():  # an empty name is the current folder
        raise HeedError(f"--output {args.output} is a folder: name a file.")
    if args.output and args.input and args.output.exists() and args.output.samefile(args.input):
        raise HeedError(f"--output {args.output} is the input: choose another file.")


def _translated_lines(
    translator: "Translator",
    stream: BinaryIO | PipeReader,
    path: Path | None,
    translate: "Callable[[Iterable[str]], Iterator[list[Translation]]]",
    *,
    done: int,
    prints_results: bool = False,
) -> "Iterator[tuple[int, str, list[Translation]]]":
    """Yield the number from 0, the text and the translations of each line, with a progress bar.

    Args:
        stream, path: the input and its file; None for standard input.
        translate: returns the translations of each line, with ``translator``.
        done: lines at the start that are left out.
        prints_results: see `translator_progress`.
    """
    total = None
    if path and path.is_file():
        with path.open("rb") as file:
            total = sum(1 for _ in file)
    lines, sources = tee(islice(read_lines(stream, str(path or "the input")), done, None))
    results = translate(lines)
    with (
        renumbered(lambda number: number + done),
        translator_progress(translator, "Translating", total=total, initial=done, prints_results=prints_results),
    ):
        # The result first: reading its block of lines fills the buffer of the sources.
        for number, (translations, source) in enumerate(zip(results, sources, strict=False), start=done):
            yield number, source, translations


def _translations(
    translator: "Translator", lines: Iterable[str], args: argparse.Namespace, *, done: int = 0, **blocks: Any
) -> "Iterator[list[Translation]]":
    """Return the translations of each line, best first. Wrong options are reported before the first line is read.

    ``blocks`` are arguments of `Translator.stream_hypotheses`.
    """
    options: Any = {"alignments": args.alignments, "protect": PROTECT[args.protect], **blocks, **search_options(args)}
    if args.terms:
        from heed.inference.constraints import Terms

        options["terms"] = Terms.read(args.terms)
    if not args.split_sentences:
        prefix = args.prefix or (read_file(args.prefix_file)[done:] if args.prefix_file else "")
        return translator.stream_hypotheses(lines, n=args.n_best, prefix=prefix, **options)
    from heed.inference.segmentation import stream_lines

    return stream_lines(translator, lines, **options)


def _format(args: argparse.Namespace, number: int, source: str, translations: "list[Translation]") -> "Iterator[str]":
    """Yield the lines of output for one line of input."""
    found = [_plain(each) for each in translations]
    if args.json:
        yield json.dumps({"source": source, "translations": found}, ensure_ascii=False)
        return
    is_numbered = args.n_best is not None
    for each in found:
        fields = [str(number), each["text"]] if is_numbered else [each["text"]]
        fields += [f"{each['score']:.4f}"] if is_numbered or args.scores else []
        yield " ||| ".join([*fields, *([each["alignment"]] if "alignment" in each else [])])


def _plain(translation: "Translation") -> dict[str, Any]:
    names = ("text", "score", "log_prob", "finished", "symptoms")
    plain: dict[str, Any] = {name: getattr(translation, name) for name in names}
    if translation.pieces:
        for name, parts in {"pieces": translation.pieces, "words": translation.words}.items():
            plain[name] = [[part, round(log_prob, 4)] for part, log_prob in parts]
    if translation.parts > 1:
        plain["parts"] = translation.parts
    if translation.alignment is not None:
        plain["alignment"] = " ".join(f"{src}-{tgt}" for src, tgt in translation.alignment)
    return plain


def _settings(args: argparse.Namespace, translator: "Translator") -> dict[str, Any]:
    """Return what the output depends on: options, engine, and digests of the input and of each model's files."""
    from heed.inference.model_folder import digest

    ignored = ["run", "input", "output", "resume", "device", "model"]
    if not args.split_sentences:  # a higher limit changes no translation
        ignored.append("max_tokens")
    options = {name: value for name, value in vars(args).items() if name not in ignored}
    options |= {name: file_digest(options[name]) for name in ("prefix_file", "terms") if options[name]}
    lines = file_digest(args.input) if args.input and args.input.is_file() else None
    engine = type(translator.engine).__name__
    return {**options, "engine": engine, "model": [digest(folder) for folder in args.model], "input": lines}
