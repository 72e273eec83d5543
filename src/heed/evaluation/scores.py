"""BLEU, chrF and TER by sacreBLEU, each with the signature that says how it was computed (Post 2018).

`heed.evaluation.metrics` has all other metrics.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from heed.errors import HeedError, missing_package
from heed.languages import base_language
from heed.progress import announced

if TYPE_CHECKING:
    from sacrebleu.metrics import BLEU, CHRF

BLEU_TOKENIZERS = {"ja": "ja-mecab", "ko": "ko-mecab", "zh": "zh"}
"""BLEU's tokenizer for target languages that need a special one. Others use 13a, sacreBLEU's default."""


@dataclass(frozen=True)
class MetricScore:
    """A corpus score of one metric."""

    value: float
    signature: str
    """How it was computed: sacreBLEU's signature, or one like it."""
    not_comparable: str | None = None
    """Why the score is not comparable with published scores of detokenized, mixed-case text; None if it is."""


@dataclass(frozen=True)
class Scores:
    """Corpus scores: BLEU and chrF from 0 to 100, case-sensitive, with one reference for each sentence."""

    bleu: float
    chrf: float
    bleu_signature: str
    chrf_signature: str
    not_comparable: str | None
    """As in `MetricScore`."""
    metrics: Mapping[str, MetricScore] = field(default_factory=dict)
    """The scores of further metrics."""


@dataclass(frozen=True, kw_only=True)
class SystemOutput:
    """The translations of N sentences, and what metrics may need beside them.

    Args:
        references: One or several lists of N references.
        tgt_lang: Target language, as in `sacrebleu_metrics`; so are ``lowercase`` and ``tokenize``.
        likelihood: Returns −log p of all references under the model in nats, and their number of tokens, EOS included.
        maximized: The metric that the search maximized, see `heed.decoding.search.Search.utility`.

    Raises:
        HeedError: There are no translations, or a list of references is not as long.
    """

    hypotheses: Sequence[str]
    references: Sequence[Sequence[str]]
    sources: Sequence[str] | None = None
    tgt_lang: str = ""
    lowercase: bool = False
    tokenize: str | None = None
    likelihood: Callable[[], tuple[float, int]] | None = None
    maximized: str | None = None

    def __post_init__(self) -> None:
        for reference in self.references:
            if len(self.hypotheses) != len(reference):
                raise HeedError(
                    f"{len(self.hypotheses)} translations cannot be scored against {len(reference)} references: "
                    "give one reference for each translation, in the same order."
                )
        if not self.hypotheses:
            raise HeedError("There is nothing to score: give at least one translation and its reference.")


Metric: TypeAlias = Callable[[SystemOutput], MetricScore]
"""A metric of `heed.evaluation.metrics` or of ``metric`` in ``conf/train.yaml``."""


def sacrebleu_metrics(tgt_lang: str, *, lowercase: bool = False, tokenize: str | None = None) -> "tuple[BLEU, CHRF]":
    """Return sacreBLEU's BLEU and chrF with the settings of all scores in heed.

    Japanese and Korean are tokenized by MeCab if the extra ``ja`` or ``ko`` is installed, otherwise into characters.
    The signature says which.

    Args:
        tgt_lang: target language (``de``, ``zh-Hant``, ``ja_JP``), to select BLEU's tokenizer.
        lowercase: score lower-cased text.
        tokenize: name of BLEU's tokenizer; None: selected by ``tgt_lang``.

    Raises:
        HeedError: if sacreBLEU does not have the tokenizer ``tokenize``, or cannot use it.
    """
    from sacrebleu.metrics import BLEU, CHRF

    if tokenize is not None and tokenize not in BLEU.TOKENIZERS:
        raise HeedError(f"BLEU has no tokenizer {tokenize!r}: choose one of {', '.join(BLEU.TOKENIZERS)}.")
    # ``force`` only disables a warning about lines that end in " ."; it does not change scores.
    try:
        bleu = BLEU(tokenize=tokenize or default_tokenizer(tgt_lang), lowercase=lowercase, force=True)
    except (RuntimeError, OSError) as error:  # MeCab is not installed, or a tokenizer model cannot be downloaded
        if tokenize in ("ja-mecab", "ko-mecab"):
            raise missing_package(f"BLEU's tokenizer {tokenize}", "MeCab", tokenize[:2]) from error
        if tokenize is not None:
            raise HeedError(f"BLEU's tokenizer {tokenize} cannot be used: {' '.join(str(error).split())}") from error
        bleu = BLEU(tokenize="char", lowercase=lowercase, force=True)
    return bleu, CHRF(lowercase=lowercase)


def default_tokenizer(tgt_lang: str) -> str:
    """Return the BLEU tokenizer of published scores for this target language."""
    return BLEU_TOKENIZERS.get(base_language(tgt_lang), "13a")


def corpus_scores(hypotheses: Sequence[str], references: Sequence[str], *, tgt_lang: str) -> Scores:
    """Return BLEU and chrF of translations with one reference each; see `score_output`."""
    return score_output(SystemOutput(hypotheses=hypotheses, references=[references], tgt_lang=tgt_lang), {})


def score_output(output: SystemOutput, metrics: Mapping[str, Metric]) -> Scores:
    """Return BLEU and chrF, equal to those of the ``sacrebleu`` command on the same lines, and further metrics."""
    first, second, further = bleu(output), chrf(output), compute(metrics, output)
    reasons = filter(None, (first.not_comparable, *_bias(output, "chrF")))
    return Scores(first.value, second.value, first.signature, second.signature, "; ".join(reasons) or None, further)


def compute(metrics: Mapping[str, Metric], output: SystemOutput) -> dict[str, MetricScore]:
    """Return the score of each metric."""
    scores, size = {}, len(output.hypotheses)
    for name, metric in metrics.items():
        slow = name.lower() == "ter"
        with announced(f"Computing {name}", f"{size:,} sentences", expected_seconds=2e-3 * size * slow):
            scores[name] = metric(output)
    return scores


def bleu(output: SystemOutput, *, read: Callable[[Any], float] = attrgetter("score"), part: str = "") -> MetricScore:
    """Return BLEU (Papineni et al. 2002), or the ``part`` of sacreBLEU's result that ``read`` returns."""
    metric, _ = sacrebleu_metrics(output.tgt_lang, lowercase=output.lowercase, tokenize=output.tokenize)
    usual, used = default_tokenizer(output.tgt_lang), str(metric.tokenizer_signature)
    split = [] if used.startswith(usual) else [f"words split by tokenizer {used}, not {usual}"]
    return sacrebleu_score(metric, output, [*split, *_reasons(output, "BLEU")], read=read, part=part)


def chrf(output: SystemOutput, *, word_order: int = 0) -> MetricScore:
    """Return chrF (Popović 2015); with ``word_order`` 2, chrF++ (Popović 2017)."""
    from sacrebleu.metrics import CHRF

    metric = CHRF(word_order=word_order, lowercase=output.lowercase)
    return sacrebleu_score(metric, output, _reasons(output, "chrF"))


def ter(output: SystemOutput) -> MetricScore:
    """Return edits per reference word, or per character in languages without spaces (Snover et al. 2006)."""
    from sacrebleu.metrics import TER

    spaceless = default_tokenizer(output.tgt_lang) in ("zh", "ja-mecab")
    return sacrebleu_score(TER(normalized=spaceless, asian_support=spaceless), output, unusual_references(output))


def bleu_of_tokens(
    output: SystemOutput,
    tokenize: Callable[[str], str],
    part: str,
    *,
    tokenizer: str = "none",
    reasons: Iterable[str] = (),
) -> MetricScore:
    """Return BLEU of lines in which ``tokenize`` and then sacreBLEU's ``tokenizer`` separate tokens by spaces."""
    hypotheses, *references = (list(map(tokenize, lines)) for lines in (output.hypotheses, *output.references))
    metric, _ = sacrebleu_metrics("", lowercase=output.lowercase, tokenize=tokenizer)
    reasons = [*reasons, *_reasons(output, "BLEU")]
    return sacrebleu_score(metric, replace(output, hypotheses=hypotheses, references=references), reasons, part=part)


def sacrebleu_score(
    metric: Any,
    output: SystemOutput,
    reasons: Iterable[str],
    *,
    read: Callable[[Any], float] = attrgetter("score"),
    part: str = "",
) -> MetricScore:
    """Return the score of a metric of sacreBLEU; ``reasons`` say why it is not comparable with published ones."""
    value = float(read(metric.corpus_score(output.hypotheses, output.references)))
    return MetricScore(value, f"{metric.get_signature()}{part}", "; ".join(reasons) or None)


def _reasons(output: SystemOutput, metric: str) -> list[str]:
    return [*["lower-cased"] * output.lowercase, *unusual_references(output), *_bias(output, metric)]


def _bias(output: SystemOutput, metric: str) -> list[str]:
    biased = output.maximized == metric.lower()
    return [f"{metric} is biased, because minimum Bayes risk search maximized it"] * biased


def unusual_references(output: SystemOutput) -> list[str]:
    """Return reasons against comparability: references that look lower-cased or tokenized."""
    lines = [line for reference in output.references for line in reference]
    reasons = []
    if not any(map(str.isupper, "".join(lines))) and 2 * sum(line.upper() != line for line in lines) > len(lines):
        reasons.append("the references have no upper case")
    if 2 * sum(line.rstrip().endswith(" .") for line in lines) > len(lines):
        reasons.append("the references look tokenized")
    return reasons
