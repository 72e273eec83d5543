"""All metrics by name. A metric is a function and a line in `METRICS`; docs/metrics.md says when to use which."""

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

from heed.characters import normalized, script
from heed.errors import HeedError, argument, first_line, require
from heed.evaluation.comet import comet
from heed.evaluation.scores import SPACELESS_REASON, Metric, MetricScore, SystemOutput, bleu, bleu_of_tokens, chrf, ter
from heed.languages import base_language, lower
from heed.options import did_you_mean

LOWER_IS_BETTER = ("ter", "perplexity", "word-perplexity")


def bleu_precision(output: SystemOutput, *, n: int) -> MetricScore:
    """Return BLEU's n-gram precision in per cent, smoothed as in BLEU (Papineni et al. 2002, sec. 2.1)."""
    return bleu(output, read=lambda result: result.precisions[n - 1], part=f"|precision:{n}")


def tokenized_bleu(output: SystemOutput) -> MetricScore:
    """Return the lower-cased BLEU of Moses' tokens, which many papers about Multi30k and IWSLT report."""
    sacremoses, language = require("sacremoses", "tokenized-BLEU", "metrics"), base_language(output.tgt_lang) or "en"
    tokenize = partial(sacremoses.MosesTokenizer(lang=language).tokenize, return_str=True)
    part = f"|moses:{language}|sacremoses:{sacremoses.__version__}"
    then, reasons = ("char", ["tokenized", SPACELESS_REASON]) if output.spaceless else ("none", ["tokenized"])
    return bleu_of_tokens(replace(output, lowercase=True), tokenize, part, then, reasons)


def spbleu(output: SystemOutput, *, model: str | None = None) -> MetricScore:
    """Return BLEU of the pieces of a SentencePiece model for all languages (Goyal et al. 2022).

    ``model`` is its file; None stands for that of FLORES-200, which sacreBLEU downloads.
    """
    if model is None:
        return bleu_of_tokens(output, str, "", "flores200")
    from sentencepiece import SentencePieceProcessor

    processor = SentencePieceProcessor()
    try:
        content = Path(model).read_bytes()
        processor.load_from_serialized_proto(content)
    except (OSError, RuntimeError) as error:
        raise HeedError(f"{model} cannot be read as a SentencePiece model: {first_line(error)}.") from error
    part = f"|spm:{hashlib.sha256(content).hexdigest()[:8]}"
    return bleu_of_tokens(output, lambda line: " ".join(processor.encode(line, out_type=str)), part)


def exact_match(output: SystemOutput) -> MetricScore:
    """Return the percentage of translations that equal one of their references, see `normalized`."""

    def normal(line: str) -> str:
        return normalized(lower(line, output.tgt_lang) if output.lowercase else line)

    case = "lc" if output.lowercase else "mixed"
    return _percentage(output, lambda hyp, refs: normal(hyp) in map(normal, refs), f"case:{case}")


def on_target_script(output: SystemOutput) -> MetricScore:
    """Return the percentage of translations that are mostly written in the scripts of the references.

    Scripts with fewer than 5 % of their letters, in which names may be written, do not count.
    """
    found = Counter(script(letter) for each in output.references for line in each for letter in _letters(line))
    scripts = {name for name, count in found.items() if count >= 0.05 * found.total()}

    def is_right(hyp: str, refs: Sequence[str]) -> bool:
        main = Counter(map(script, _letters(hyp))).most_common(1)
        return main[0][0] in scripts if main else not _letters(refs[0])

    return _percentage(output, is_right, f"scripts:{'+'.join(sorted(scripts)).lower()}")


def on_target_language(output: SystemOutput) -> MetricScore:
    """Return the percentage of translations that py3langid identifies as the target language."""
    py3langid, language = require("py3langid", "on-target-language", "metrics"), base_language(output.tgt_lang)
    if language not in dict(py3langid.rank("")):
        option = argument("tgt_lang", "CODE")
        raise HeedError(f"on-target-language needs a language that py3langid knows, not {language!r}: give {option}.")

    def is_right(hyp: str, refs: Sequence[str]) -> bool:
        return py3langid.classify(hyp)[0] == language if _letters(hyp) else not _letters(refs[0])

    return _percentage(output, is_right, f"lang:{language}|py3langid:{py3langid.__version__}")


def perplexity(output: SystemOutput, *, per: str) -> MetricScore:
    """Return exp(−log p / n) of the references under the model, for n tokens, or words between white space.

    In references that have hardly any spaces, n counts characters instead of words.
    """
    if output.likelihood is None:
        raise HeedError("Perplexity needs the model that translated.")
    nll, tokens = output.likelihood()
    reason = "perplexity per token depends on the tokenizer" if per == "token" else None
    if per == "word" and output.spaceless:
        per, reason = "character", "the references have hardly any spaces, so characters are counted, not words"
    words = [word for each in output.references for line in each for word in line.split()]
    units = {"token": tokens, "word": len(words), "character": sum(map(len, words))}[per]
    value = math.exp(min(nll / max(units, 1), 700.0))  # exp overflows soon after
    return MetricScore(value, f"nrefs:{len(output.references)}|per:{per}|eos:yes", reason)


METRICS: Mapping[str, Metric] = {
    "BLEU": bleu,
    **{f"BLEU-{n}": partial(bleu, order=n, part=f"|order:{n}") for n in (1, 2, 3, 4)},
    **{f"precision-{n}": partial(bleu_precision, n=n) for n in (1, 2, 3, 4)},
    "chrF": chrf,
    "chrF++": partial(chrf, word_order=2),
    "TER": ter,
    "spBLEU": spbleu,
    "tokenized-BLEU": tokenized_bleu,
    "exact-match": exact_match,
    "length-ratio": partial(bleu, read=attrgetter("ratio"), part="|hyp/ref"),
    "on-target-script": on_target_script,
    "on-target-language": on_target_language,
    "perplexity": partial(perplexity, per="token"),
    "word-perplexity": partial(perplexity, per="word"),
    "COMET": comet,
}


def find_metrics(names: Iterable[str], metrics: Mapping[str, Metric]) -> dict[str, Metric]:
    """Return the metrics with these names, in upper or lower case, or raise a HeedError."""
    by_name = {name.lower(): name for name in metrics}
    if unknown := next((name for name in names if name.lower() not in by_name), None):
        close = did_you_mean(unknown.lower(), by_name)
        own = "Metrics of your own are computed in training only (docs/metrics.md)."
        raise HeedError(f"There is no metric {unknown!r}{close}: choose from {', '.join(by_name)}. {own}")
    return {by_name[name.lower()]: metrics[by_name[name.lower()]] for name in names}


def find_unusable(metrics: Iterable[tuple[str, Metric]], **given: Any) -> dict[str, str]:
    """Return the metrics that need more than the ``given`` part of a `SystemOutput`, or a missing package, and why."""
    sample, reasons = SystemOutput(hypotheses=["a"], references=[["a"]], **given), {}
    for name, metric in metrics:
        try:
            metric(sample)
        except HeedError as error:
            reasons[name] = str(error)
    return reasons


def format_score(name: str, value: float | None) -> str:
    """Return a score with two decimals, or with four if the metric's values are around 1; None is not finite."""
    digits = 4 if name.lower() in ("comet", "length-ratio") else 2
    return "not finite" if value is None else f"{value:.{digits}f}"


def _letters(line: str) -> list[str]:
    return list(filter(str.isalpha, line))


def _percentage(output: SystemOutput, is_right: Callable[[str, Sequence[str]], bool], part: str) -> MetricScore:
    right = [is_right(hyp, refs) for hyp, *refs in zip(output.hypotheses, *output.references, strict=True)]
    return MetricScore(100 * sum(right) / len(right), f"nrefs:{len(output.references)}|{part}")
