"""``heed evaluate``: how good translations are, by the metrics of the field."""

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from heed.cli.common import (
    LINES_AT_ONCE,
    Command,
    add_model_options,
    add_search_options,
    build_translator,
    find_device,
    load_models,
    path_text,
    read_file,
    search_options,
    see_that_lines_match,
    with_progress,
    write_lines,
)
from heed.errors import HeedError

if TYPE_CHECKING:
    from heed.evaluation.scores import MetricScore


def _evaluate_options(parser: argparse.ArgumentParser) -> None:
    add_model_options(parser, required=False, several=True)
    parser.add_argument("--hyp", type=Path, metavar="FILE", help="translations to score, in place of a model's")
    parser.add_argument("--src", type=Path, metavar="FILE", help="source sentences, for a model and for COMET")
    parser.add_argument(
        "--ref", required=True, type=Path, action="append", metavar="FILE", help="references; once for each if several"
    )
    parser.add_argument("--tgt-lang", metavar="CODE", help="chooses BLEU's tokenizer: ja, ko, zh, … (the model's)")
    parser.add_argument("--lowercase", action="store_true", help="BLEU and chrF of lower-cased text")
    parser.add_argument(
        "--tokenize", metavar="NAME", help="BLEU's tokenizer: 13a, intl, char, zh, ja-mecab, none, … (the language's)"
    )
    parser.add_argument(
        "--comet", metavar="MODEL", help="COMET too, by this checkpoint or model of the Hugging Face hub"
    )
    parser.add_argument("--json", action="store_true", help="the scores as an object")
    add_search_options(parser)


def _evaluate(args: argparse.Namespace) -> None:
    from heed.evaluation.comet import Comet
    from heed.evaluation.scores import metric_scores

    if (args.model is None) == (args.hyp is None):
        raise HeedError("Name either a model to translate with (--model DIR) or its translations (--hyp FILE).")
    if args.src is None and (args.model or args.comet):
        raise HeedError(f"{'--model' if args.model else '--comet'} needs the source sentences: add --src FILE.")
    files = {path: read_file(path) for path in (args.src, args.hyp, *args.ref) if path}
    see_that_lines_match(files)
    comet = Comet(args.comet) if args.comet else None

    references = [files[path] for path in args.ref]
    hypotheses, tgt_lang = (files[args.hyp], "") if args.hyp else _translate(args, files[args.src])
    settings = {"tgt_lang": args.tgt_lang or tgt_lang, "lowercase": args.lowercase, "tokenize": args.tokenize}
    scores = metric_scores(hypotheses, references, **settings)
    if comet:
        scores["COMET"] = comet.score(files[args.src], hypotheses, references)
    write_lines([_as_json(args, scores) if args.json else _as_text(scores)])


def _translate(args: argparse.Namespace, sources: list[str]) -> tuple[list[str], str]:
    """The model's translations, and the language they are in ("" where it does not tell)."""
    find_device(args.device)  # before the models are read
    folder = load_models(args.model)
    translator = build_translator(folder, args, **search_options(args))
    translations = with_progress(translator.stream(sources, chunk=LINES_AT_ONCE))
    return list(translations), str(folder.config.get("tgt_lang", ""))


def _as_text(scores: "Mapping[str, MetricScore]") -> str:
    lines = []
    for name, score in scores.items():
        places = 4 if name == "COMET" else 2
        lines.append(f"{name:<5} {score.value:7.{places}f}   {score.signature}")
        if score.not_comparable:
            lines.append(f"{'':16}not comparable with published scores: {score.not_comparable}")
    return "\n".join(lines)


def _as_json(args: argparse.Namespace, scores: "Mapping[str, MetricScore]") -> str:
    named = {"model": " ".join(map(str, args.model or ())), "hyp": args.hyp, "src": args.src}
    answer = {
        **{name: path_text(path) for name, path in named.items() if path},
        "ref": [path_text(path) for path in args.ref],
        "scores": {name: asdict(score) for name, score in scores.items()},
    }
    return json.dumps(answer, indent=2, ensure_ascii=False)


COMMAND = Command(
    "evaluate", "Score a model, or translations: BLEU, chrF, TER with signatures.", _evaluate_options, _evaluate
)
