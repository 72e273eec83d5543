"""``heed evaluate``: BLEU, chrF, TER and COMET of a model or of translations."""

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from heed.cli.arguments import (
    ENSEMBLE,
    add,
    add_flag,
    add_model_options,
    add_search_options,
    load_translator,
    search_options,
)
from heed.cli.lines import LINES_AT_ONCE, check_line_counts, path_text, read_file, translator_progress, write_lines
from heed.errors import HeedError
from heed.progress import announced

if TYPE_CHECKING:
    from heed.evaluation.scores import MetricScore

SUMMARY = "Compute BLEU, chrF and TER of a model or of translations."


def add_options(parser: argparse.ArgumentParser) -> None:
    add_model_options(parser, required=False, several=ENSEMBLE)
    add(parser, "--hyp", "FILE", "translations to score, instead of --model")
    add(parser, "--src", "FILE", "source sentences, for --model and --comet")
    text = "reference translations; repeat the option for several references"
    add(parser, "--ref", "FILE", text, required=True, action="append")
    text = "target language, which selects the BLEU tokenizer: ja, ko, zh, … (default: the model's)"
    add(parser, "--tgt-lang", "CODE", text)
    add_flag(parser, "--lowercase", "case-insensitive BLEU and chrF")
    text = "BLEU tokenizer: 13a, intl, char, zh, ja-mecab, none, … (default: by target language)"
    add(parser, "--tokenize", "NAME", text)
    add(parser, "--comet", "MODEL", "also compute COMET with this checkpoint or Hugging Face model")
    add_flag(parser, "--json", "print the scores as a JSON object")
    add_search_options(parser)


def run(args: argparse.Namespace) -> None:
    from heed.evaluation.comet import Comet
    from heed.evaluation.scores import metric_scores

    if (args.model is None) == (args.hyp is None):
        raise HeedError("Give either a model to translate with (--model DIR) or translations (--hyp FILE).")
    if args.src is None and (args.model or args.comet):
        raise HeedError(f"{'--model' if args.model else '--comet'} needs the source sentences: add --src FILE.")
    files = {path: read_file(path) for path in (args.src, args.hyp, *args.ref) if path}
    check_line_counts(files)
    comet = Comet(args.comet) if args.comet else None

    references = [files[path] for path in args.ref]
    hypotheses, tgt_lang = (files[args.hyp], "") if args.hyp else _translate(args, files[args.src])
    settings = {"tgt_lang": args.tgt_lang or tgt_lang, "lowercase": args.lowercase, "tokenize": args.tokenize}
    size, count = f"{len(hypotheses):,} sentences", len(hypotheses)
    with announced("Computing BLEU, chrF and TER", size, expected_seconds=2e-3 * count):  # most of it TER
        scores = metric_scores(hypotheses, references, **settings)
    if comet:
        with announced("Computing COMET", size, expected_seconds=0.5 * count):  # on a CPU
            scores["COMET"] = comet.score(files[args.src], hypotheses, references)
    write_lines([_format_json(args, scores) if args.json else _format_text(scores)])


def _translate(args: argparse.Namespace, sources: list[str]) -> tuple[list[str], str]:
    """Return the translations of the model, and its target language ("" if unknown)."""
    translator = load_translator(args)
    with translator_progress(translator, "Translating", total=len(sources), prints_results=False):
        found = list(translator.stream(sources, chunk=LINES_AT_ONCE, **search_options(args)))
    return [translations[0].text for translations in found], translator.tgt_lang


def _format_text(scores: "Mapping[str, MetricScore]") -> str:
    lines = [
        f"{name:<5} {score.value:7.{4 if name == 'COMET' else 2}f}   {score.signature}"
        for name, score in scores.items()
    ]
    reasons = {name: score.not_comparable for name, score in scores.items() if score.not_comparable}
    for reason in dict.fromkeys(reasons.values()):
        names = ", ".join(name for name, own in reasons.items() if own == reason)
        lines.append(f"{names}: not comparable with published scores: {reason}")
    return "\n".join(lines)


def _format_json(args: argparse.Namespace, scores: "Mapping[str, MetricScore]") -> str:
    inputs = {"model": " ".join(map(str, args.model or ())), "hyp": args.hyp, "src": args.src}
    plain = {
        **{name: path_text(path) for name, path in inputs.items() if path},
        "ref": [path_text(path) for path in args.ref],
        "scores": {name: asdict(score) for name, score in scores.items()},
    }
    return json.dumps(plain, indent=2, ensure_ascii=False)
