"""``heed evaluate`` and ``heed score``: scores of a model or of translations, and log-probabilities of translations."""

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heed.cli.arguments import load_translator, search_options
from heed.cli.lines import path_text, read_parallel, translator_progress, write_lines
from heed.errors import HeedError
from heed.files import write_file
from heed.options import format_value
from heed.progress import print_line

if TYPE_CHECKING:
    from heed.evaluation.scores import MetricScore
    from heed.inference.translator import Translator


def run(args: argparse.Namespace) -> None:
    from heed.evaluation.comet import comet
    from heed.evaluation.diagnosis import describe_differences
    from heed.evaluation.metrics import METRICS, find_metrics, find_unusable, spbleu
    from heed.evaluation.scores import SystemOutput, compute, sentence_scores

    if (args.model is None) == (args.hyp is None):
        raise HeedError("Give either a model to translate with (RUN) or translations (--hyp FILE).")
    own = {"spBLEU": partial(spbleu, model=args.spm), "COMET": partial(comet, name=args.comet) if args.comet else comet}
    metrics = {**METRICS, **own}
    wants_all = args.metrics.lower() == "all"
    trained_with = [] if args.metrics else _metrics_of_run(args.model)
    named = (args.metrics or ("bleu,chrf" if trained_with else "bleu,chrf,ter")).split(",") * (not wants_all)
    asked = find_metrics([*named, *["comet"] * bool(args.comet)], metrics)
    known = [name for name in trained_with if name.lower() in map(str.lower, metrics)]
    if args.src is None and (args.model or args.comet):
        raise HeedError(f"{'--model' if args.model else '--comet'} needs the source sentences: add --src FILE.")
    paths = [path for path in (args.src, args.hyp, *args.ref) if path]
    files = dict(zip(paths, read_parallel(*paths), strict=True))
    sources, references = files.get(args.src), [files[path] for path in args.ref]
    translator = load_translator(args) if args.model else None
    given: dict[str, Any] = {
        "tgt_lang": args.tgt_lang or (translator.tgt_lang if translator else ""),
        "lowercase": args.lowercase,
        "tokenize": args.tokenize,
        "likelihood": cache(partial(translator.likelihood, sources or [], references)) if translator else None,
    }
    chosen = metrics if wants_all else {**asked, **find_metrics(known, metrics)}
    likelihood = partial(translator.likelihood, ["a"], [["a"]]) if translator else None
    instead = {"sources": sources and ["a"], "likelihood": likelihood}
    lacking = find_unusable(chosen.items(), **{**given, **instead})
    for name in asked.keys() & lacking:
        raise HeedError(lacking[name])
    lacking |= {
        name: "A metric of your own is computed in training only." for name in trained_with if name not in known
    }
    hypotheses, search = _translate(args, translator, sources or []) if translator else (files[args.hyp], {})
    texts: dict[str, Any] = {"hypotheses": hypotheses, "references": references, "sources": sources}
    usable = {name: metric for name, metric in chosen.items() if name not in lacking}
    output = SystemOutput(**texts, **given, maximized=search.get("utility"))
    for line in describe_differences(hypotheses, references[0]) if args.hyp else ():
        print_line(f"Scores may be wrong: {line}")
    scores = compute(usable, output)
    if args.per_sentence:
        columns = sentence_scores({n: metric for n, metric in usable.items() if "perplexity" not in n}, output)
        rows = [list(columns), *([f"{value:.4f}" for value in row] for row in zip(*columns.values(), strict=True))]
        write_file(args.per_sentence, "".join("\t".join(row) + "\n" for row in rows))
    write_lines([_format_json(args, scores, lacking, search) if args.json else _format_text(scores, lacking, search)])


def score(args: argparse.Namespace) -> None:
    sources, targets = read_parallel(args.src, args.tgt)
    translator = load_translator(args)
    with translator_progress(translator, "Scoring", total=len(sources), prints_results=False):
        scores = translator.score(sources, targets)
    write_lines(f"{score:.6f}" for score in scores)


def _metrics_of_run(models: list[Path] | None) -> list[str]:
    """Return the ``metrics`` that the run of the first model was trained with."""
    from heed.runs.config import find_config

    for folder in [each for path in (models or [])[:1] for each in (path, *path.absolute().parents[:2])]:
        if config := find_config(folder):
            return list(map(str, config.get("metrics") or ()))
    return []


def _translate(
    args: argparse.Namespace, translator: "Translator", sources: list[str]
) -> tuple[list[str], dict[str, Any]]:
    """Return the translations of the model, and the settings of the search."""
    from heed.inference.searches import resolve_search

    options = search_options(args)
    _, settings = resolve_search(translator.saved_search, **options)
    with translator_progress(translator, "Translating", total=len(sources), prints_results=False):
        return translator.without_fallbacks().translate(sources, **options), settings


def _format_text(scores: "Mapping[str, MetricScore]", lacking: Mapping[str, str], search: Mapping[str, Any]) -> str:
    from heed.evaluation.metrics import format_score

    width = max(5, *map(len, [*scores, *lacking]))
    lines = [
        f"{name:<{width}} {format_score(name, score.value):>7}   {score.signature}" for name, score in scores.items()
    ]
    lines += [f"{name:<{width}}       –   not computed: {reason}" for name, reason in lacking.items()]
    reasons = {name: score.not_comparable for name, score in scores.items() if score.not_comparable}
    for reason in dict.fromkeys(reasons.values()):
        names = ", ".join(name for name, own in reasons.items() if own == reason)
        lines.append(f"{names}: not comparable with published scores: {reason}")
    if search:
        lines.append("Search: " + ", ".join(f"{name} {format_value(value)}" for name, value in search.items()))
    return "\n".join(lines)


def _format_json(
    args: argparse.Namespace, scores: "Mapping[str, MetricScore]", lacking: Mapping[str, str], search: Mapping[str, Any]
) -> str:
    inputs = {"model": " ".join(map(str, args.model or ())), "hyp": args.hyp, "src": args.src}
    plain = {
        **{name: path_text(path) for name, path in inputs.items() if path},
        "ref": [path_text(path) for path in args.ref],
        **({"search": search} if search else {}),
        "scores": {name: asdict(score) for name, score in scores.items()},
        **({"not_computed": lacking} if lacking else {}),
    }
    return json.dumps(plain, indent=2, ensure_ascii=False)
