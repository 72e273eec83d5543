"""``heed synthesize``: training pairs with one side translated by a model."""

import argparse
import json
from functools import partial
from pathlib import Path

from heed.cli.arguments import load_translator, search_options
from heed.cli.lines import LINES_AT_ONCE, path_text, write_lines
from heed.cli.output_file import resumable_output
from heed.cli.translate import translated_lines
from heed.errors import HeedError
from heed.files import write_file


def run(args: argparse.Namespace) -> None:
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
    from heed.cache import file_digest
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
    translate = partial(translator.stream, chunk=LINES_AT_ONCE, **search_options(args))
    with file.open("rb") as stream, output as (pairs, done):
        for number, text, translations in translated_lines(translator, stream, file, translate, done=done):
            best = translations[0]
            sides = {"src": text, "tgt": best.text} if side == "tgt" else {"src": best.text, "tgt": text}
            line = json.dumps({**sides, "score": round(best.score, 4)}, ensure_ascii=False)
            pairs.write(f"{line}\n".encode())
            if (number + 1) % LINES_AT_ONCE == 0:
                pairs.flush()
    return f"{path}: {translator.directions[0]} translations of {path_text(file)}"
