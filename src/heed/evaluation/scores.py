"""BLEU, chrF and TER by sacreBLEU, each with the signature that says how it was computed (Post 2018)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from heed.errors import HeedError, missing_package

if TYPE_CHECKING:
    from sacrebleu.metrics import BLEU, CHRF

BLEU_TOKENIZERS = {"ja": "ja-mecab", "ko": "ko-mecab", "zh": "zh"}
"""BLEU's tokenizer for target languages that need a special one; the others use 13a, sacreBLEU's default."""


@dataclass(frozen=True)
class Scores:
    """Corpus scores from 0 to 100, case-sensitive, with one reference for each sentence."""

    bleu: float
    chrf: float
    bleu_signature: str
    chrf_signature: str
    not_comparable: str | None
    """Why the scores are not comparable with published scores of detokenized, mixed-case text; None if they are."""


@dataclass(frozen=True)
class MetricScore:
    """A corpus score of one metric."""

    value: float
    signature: str
    """How it was computed: sacreBLEU's signature."""
    not_comparable: str | None
    """As in `Scores`."""


@runtime_checkable
class Metric(Protocol):
    """A metric of ``metrics`` in ``conf/train.yaml``, with which ``select=`` compares validations."""

    def score(
        self, sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[Sequence[str]]
    ) -> MetricScore:
        """Return the score of translations; higher values are better.

        Args:
            sources: N sentences.
            hypotheses: Their translations.
            references: One or several lists of N references.
        """


def sacrebleu_metrics(tgt_lang: str, *, lowercase: bool = False, tokenize: str | None = None) -> "tuple[BLEU, CHRF]":
    """Return sacreBLEU's BLEU and chrF with the settings of all scores in heed.

    Japanese and Korean are tokenized by MeCab if the extra ``ja`` or ``ko`` is installed, and into
    characters otherwise; the signature says which.

    Args:
        tgt_lang: Target language (``de``, ``zh-Hant``, ``ja_JP``); selects BLEU's tokenizer unless ``tokenize`` does.
        lowercase: Score lower-cased text.
        tokenize: Name of BLEU's tokenizer.

    Raises:
        HeedError: sacreBLEU does not have the tokenizer ``tokenize``, or cannot use it.
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
    return BLEU_TOKENIZERS.get(tgt_lang.lower().replace("_", "-").split("-")[0], "13a")


def corpus_scores(hypotheses: Sequence[str], references: Sequence[str], *, tgt_lang: str) -> Scores:
    """Return BLEU and chrF, equal to those of the ``sacrebleu`` command on the same lines.

    Args:
        hypotheses: Translations.
        references: One for each translation.
        tgt_lang: Target language, as in `sacrebleu_metrics`.

    Raises:
        HeedError: There are no translations, or not as many references.
    """
    bleu, chrf = metric_scores(hypotheses, [references], tgt_lang=tgt_lang, ter=False).values()
    return Scores(bleu.value, chrf.value, bleu.signature, chrf.signature, bleu.not_comparable)


def metric_scores(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    tgt_lang: str,
    lowercase: bool = False,
    tokenize: str | None = None,
    ter: bool = True,
) -> dict[str, MetricScore]:
    """Return BLEU, chrF and TER (lower is better) by name, against one or several references for each sentence.

    In languages written without spaces TER counts characters. TER ignores case, as is sacreBLEU's default.

    Args:
        hypotheses: Translations, N of them.
        references: One or several lists of N references.
        tgt_lang: Target language, as in `sacrebleu_metrics`.
        lowercase: Compute BLEU and chrF on lower-cased text.
        tokenize: Name of BLEU's tokenizer.
        ter: Compute TER, which is slow.

    Raises:
        HeedError: There are no translations, a list of references is not as long, or the tokenizer cannot be used.
    """
    from sacrebleu.metrics import TER

    for reference in references:
        if len(hypotheses) != len(reference):
            raise HeedError(
                f"{len(hypotheses)} translations cannot be scored against {len(reference)} references: "
                "give one reference for each translation, in the same order."
            )
    if not hypotheses:
        raise HeedError("There is nothing to score: give at least one translation and its reference.")
    bleu, chrf = sacrebleu_metrics(tgt_lang, lowercase=lowercase, tokenize=tokenize)
    usual, used = default_tokenizer(tgt_lang), str(bleu.tokenizer_signature)
    case = ["lower-cased"] if lowercase else []
    split = [] if used.startswith(usual) else [f"words split by tokenizer {used}, not {usual}"]
    metrics = [("BLEU", bleu, case + split), ("chrF", chrf, case)]
    if ter:
        spaceless = usual in ("zh", "ja-mecab")
        metrics.append(("TER", TER(normalized=spaceless, asian_support=spaceless), []))
    shared = _unusual_references(references)
    scores = {}
    for name, metric, own in metrics:
        value = float(metric.corpus_score(hypotheses, references).score)
        scores[name] = MetricScore(value, str(metric.get_signature()), "; ".join(own + shared) or None)
    return scores


def _unusual_references(references: Sequence[Sequence[str]]) -> list[str]:
    """Return reasons against comparability: references that look lower-cased or tokenized."""
    lines = [line for reference in references for line in reference]
    reasons = []
    if not any(map(str.isupper, "".join(lines))) and 2 * sum(line.upper() != line for line in lines) > len(lines):
        reasons.append("the references have no upper case")
    if 2 * sum(line.rstrip().endswith(" .") for line in lines) > len(lines):
        reasons.append("the references look tokenized")
    return reasons
