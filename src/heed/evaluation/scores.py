"""BLEU, chrF and TER by sacreBLEU, each with the signature that says how it was computed (Post 2018).

`heed.evaluation.metrics` has all other metrics.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from heed.characters import script
from heed.errors import HeedError, missing_package
from heed.languages import DOTLESS_I, base_language, lower
from heed.progress import announced

if TYPE_CHECKING:
    from sacrebleu.metrics import BLEU, CHRF

KANA = frozenset({"HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"})
SPACELESS_SCRIPTS = KANA | {"BALINESE", "CJK", "JAVANESE", "KHMER", "LAO", "MYANMAR", "TAI", "THAI", "TIBETAN", "YI"}
"""Scripts without spaces between words, by the first word of the Unicode names of their letters."""
TOKENIZERS: Mapping[str, tuple[str, Set[str]]] = {
    "ja": ("ja-mecab", KANA | {"CJK"}),
    "ko": ("ko-mecab", frozenset()),
    "zh": ("zh", frozenset({"CJK"})),
}
"""BLEU's tokenizers for target languages that need a special one, and the scripts without spaces that these split.
Other languages use 13a, sacreBLEU's default."""
LETTERS_PER_SPACE = 8
"""Text of `SPACELESS_SCRIPTS` with no more letters and marks per space was segmented into words."""
SPACELESS_REASON = "the references have hardly any spaces, so characters are counted, not words: use chrF or spBLEU"


@dataclass(frozen=True)
class MetricScore:
    """A corpus score of one metric."""

    value: float
    signature: str  # how it was computed: sacreBLEU's signature, or one like it
    not_comparable: str | None = None  # why it cannot be compared with published scores of detokenized, mixed-case text


@dataclass(frozen=True)
class Scores:
    """Corpus scores: BLEU and chrF from 0 to 100, case-sensitive, with one reference for each sentence."""

    bleu: float
    chrf: float
    bleu_signature: str
    chrf_signature: str
    not_comparable: str | None  # as in `MetricScore`
    metrics: Mapping[str, MetricScore] = field(default_factory=dict)  # the scores of further metrics


@dataclass(frozen=True, kw_only=True)
class SystemOutput:
    """The translations of N sentences, and what metrics may need beside them.

    Raises:
        HeedError: There are no translations, or a list of references is not as long.
    """

    hypotheses: Sequence[str]
    references: Sequence[Sequence[str]]  # one or several lists of N references
    sources: Sequence[str] | None = None
    tgt_lang: str = ""
    lowercase: bool = False
    tokenize: str | None = None  # BLEU's tokenizer instead of the usual one
    likelihood: Callable[[], tuple[float, int]] | None = None  # −log p of all references in nats; tokens with EOS
    maximized: str | None = None  # the metric that the search maximized, see `Search.utility`
    whole: "SystemOutput | None" = None  # the set that this one sentence is from, which decides how it is tokenized

    def __post_init__(self) -> None:
        for reference in self.references:
            if len(self.hypotheses) != len(reference):
                raise HeedError(
                    f"{len(self.hypotheses)} translations cannot be scored against {len(reference)} references: "
                    "give one reference for each translation, in the same order."
                )
        if not self.hypotheses:
            raise HeedError("There is nothing to score: give at least one translation and its reference.")

    @cached_property
    def spaceless(self) -> set[str]:
        """The scripts of the references, if these have hardly any spaces between words."""
        return self.whole.spaceless if self.whole else spaceless_scripts(chain(*self.references))


Metric: TypeAlias = Callable[[SystemOutput], MetricScore]
"""A metric of `heed.evaluation.metrics` or of ``metric`` in ``conf/train.yaml``."""
Reader: TypeAlias = Callable[[Any], float]  # returns a number of sacreBLEU's result


def spaceless_scripts(lines: Iterable[str]) -> set[str]:
    """Return the `SPACELESS_SCRIPTS` that a text is written in, if it has hardly any spaces between words."""
    lines = list(lines)
    found = Counter[str]()
    for char, number in Counter("".join(lines)).items():
        if char.isalpha() or script(char) in SPACELESS_SCRIPTS:
            found[script(char)] += number
    spaces = sum(max(len(line.split()) - 1, 0) for line in lines)
    number = sum(found[name] for name in SPACELESS_SCRIPTS)
    has_words = 2 * number <= found.total() or number <= LETTERS_PER_SPACE * spaces
    return set() if has_words else {name for name in SPACELESS_SCRIPTS if found[name] > 0.1 * number}


def usual_tokenizer(tgt_lang: str, spaceless: Set[str]) -> str:
    """Return the BLEU tokenizer of published scores; ``char`` if it does not split the scripts without spaces."""
    tokenizer, scripts = TOKENIZERS.get(base_language(tgt_lang), ("13a", frozenset()))
    return tokenizer if spaceless <= scripts else "char"


@cache
def sacrebleu_metrics(
    usual: str, *, lowercase: bool = False, tokenize: str | None = None, order: int = 4, of_sentence: bool = False
) -> "tuple[BLEU, CHRF]":
    """Return sacreBLEU's BLEU and chrF with the settings of all scores in heed.

    Japanese and Korean are tokenized by MeCab if the extra ``ja`` or ``ko`` is installed, otherwise into characters.
    The signature says which.

    Args:
        usual: see `usual_tokenizer`.
        tokenize: name of BLEU's tokenizer, instead of the usual one.
        order: length of the longest n-grams of BLEU.
        of_sentence: BLEU of a sentence leaves out n-grams that are longer than the sentence.

    Raises:
        HeedError: if sacreBLEU does not have the tokenizer ``tokenize``, or cannot use it.
    """
    from sacrebleu.metrics import BLEU, CHRF

    if tokenize is not None and tokenize not in BLEU.TOKENIZERS:
        raise HeedError(f"BLEU has no tokenizer {tokenize!r}: choose one of {', '.join(BLEU.TOKENIZERS)}.")
    # ``force`` only disables a warning about lines that end in " ."; it does not change scores.
    settings: Any = {"lowercase": lowercase, "force": True, "max_ngram_order": order, "effective_order": of_sentence}
    try:
        bleu = BLEU(tokenize=tokenize or usual, **settings)
    except (RuntimeError, OSError) as error:  # MeCab is not installed, or a tokenizer model cannot be downloaded
        if tokenize in ("ja-mecab", "ko-mecab"):
            raise missing_package(f"BLEU's tokenizer {tokenize}", "MeCab", tokenize[:2]) from error
        if tokenize is not None:
            raise HeedError(f"BLEU's tokenizer {tokenize} cannot be used: {' '.join(str(error).split())}") from error
        bleu = BLEU(tokenize="char", **settings)
    return bleu, CHRF(lowercase=lowercase)


def corpus_scores(hypotheses: Sequence[str], references: Sequence[str], *, tgt_lang: str) -> Scores:
    """Return BLEU and chrF of translations with one reference each; see `score_output`."""
    return score_output(SystemOutput(hypotheses=hypotheses, references=[references], tgt_lang=tgt_lang), {})


def score_output(output: SystemOutput, metrics: Mapping[str, Metric]) -> Scores:
    """Return BLEU and chrF, equal to those of the ``sacrebleu`` command on the same lines, and further metrics."""
    first, second, further = bleu(output), chrf(output), compute(metrics, output)
    reasons = filter(None, (first.not_comparable, *_bias(output, "chrF")))
    return Scores(first.value, second.value, first.signature, second.signature, "; ".join(reasons) or None, further)


def sentence_scores(metrics: Mapping[str, Metric], output: SystemOutput) -> dict[str, list[float]]:
    """Return the score of every sentence by each metric; BLEU is smoothed as sacreBLEU's sentence BLEU."""

    def sentence(i: int) -> SystemOutput:
        texts: Any = {"hypotheses": [output.hypotheses[i]], "references": [[lines[i]] for lines in output.references]}
        return replace(output, **texts, sources=output.sources and [output.sources[i]], likelihood=None, whole=output)

    sentences = list(map(sentence, range(len(output.hypotheses))))
    return {name: [metric(sentence).value for sentence in sentences] for name, metric in metrics.items()}


def compute(metrics: Mapping[str, Metric], output: SystemOutput) -> dict[str, MetricScore]:
    """Return the score of each metric."""
    scores, size = {}, len(output.hypotheses)
    for name, metric in metrics.items():
        slow = name.lower() == "ter"
        with announced(f"Computing {name}", f"{size:,} sentences", expected_seconds=2e-3 * size * slow):
            scores[name] = metric(output)
    return scores


def bleu(output: SystemOutput, *, read: Reader = attrgetter("score"), part: str = "", order: int = 4) -> MetricScore:
    """Return BLEU (Papineni et al. 2002), or the ``part`` of sacreBLEU's result that ``read`` returns."""
    usual, of_sentence = usual_tokenizer(output.tgt_lang, output.spaceless), output.whole is not None
    given: Any = {"lowercase": output.lowercase, "tokenize": output.tokenize}
    metric, _ = sacrebleu_metrics(usual, order=order, of_sentence=of_sentence, **given)
    used = str(metric.tokenizer_signature)
    split = [] if used.startswith(usual) else [f"words split by tokenizer {used}, not {usual}"]
    split += [SPACELESS_REASON] * (usual == used == "char")
    return sacrebleu_score(metric, output, [*split, *_reasons(output, "BLEU")], read=read, part=part)


def chrf(output: SystemOutput, *, word_order: int = 0) -> MetricScore:
    """Return chrF (Popović 2015); with ``word_order`` 2, chrF++ (Popović 2017)."""
    from sacrebleu.metrics import CHRF

    metric = CHRF(word_order=word_order, lowercase=output.lowercase)
    return sacrebleu_score(metric, output, _reasons(output, "chrF"))


def ter(output: SystemOutput) -> MetricScore:
    """Return edits per reference word, or per character in languages without spaces (Snover et al. 2006)."""
    from sacrebleu.metrics import TER

    usual, reasons = usual_tokenizer(output.tgt_lang, output.spaceless), unusual_references(output)
    metric = TER(normalized=usual in ("zh", "ja-mecab"), asian_support=usual in ("zh", "ja-mecab"))
    if usual != "char":
        return sacrebleu_score(metric, output, reasons)
    return sacrebleu_score(metric, map_lines(" ".join, output), [SPACELESS_REASON, *reasons], part="|split:char")


def map_lines(change: Callable[[str], str], output: SystemOutput) -> SystemOutput:
    """Return the output with ``change`` applied to each translation and reference."""
    hypotheses, *references = (list(map(change, lines)) for lines in (output.hypotheses, *output.references))
    return replace(output, hypotheses=hypotheses, references=references)


def bleu_of_tokens(
    output: SystemOutput, tokenize: Callable[[str], str], part: str, then: str = "none", reasons: Iterable[str] = ()
) -> MetricScore:
    """Return BLEU of lines in which ``tokenize`` and ``then``, a tokenizer of sacreBLEU, separate tokens by spaces."""
    of_sentence = output.whole is not None
    metric, _ = sacrebleu_metrics("", lowercase=output.lowercase, tokenize=then, of_sentence=of_sentence)
    reasons = [*reasons, *_reasons(output, "BLEU")]
    return sacrebleu_score(metric, map_lines(tokenize, output), reasons, part=part)


def sacrebleu_score(
    metric: Any, output: SystemOutput, reasons: Iterable[str], *, read: Reader = attrgetter("score"), part: str = ""
) -> MetricScore:
    """Return the score of a metric of sacreBLEU; ``reasons`` say why it is not comparable with published ones."""
    if output.lowercase and base_language(output.tgt_lang) in DOTLESS_I:  # sacreBLEU's lower case of I is always i
        output = map_lines(partial(lower, lang=output.tgt_lang), output)
        part += f"|lower:{base_language(output.tgt_lang)}"
    value = float(read(metric.corpus_score(output.hypotheses, output.references)))
    return MetricScore(value, f"{metric.get_signature()}{part}", "; ".join(reasons) or None)


def _reasons(output: SystemOutput, metric: str) -> list[str]:
    return [*["lower-cased"] * output.lowercase, *unusual_references(output), *_bias(output, metric)]


def _bias(output: SystemOutput, metric: str) -> list[str]:
    biased = output.maximized == metric.lower()
    return [f"{metric} is biased, because minimum Bayes risk search maximized it"] * biased


def unusual_references(output: SystemOutput) -> list[str]:
    """Return reasons against comparability: references that look lower-cased or tokenized."""
    lines = [*chain(*output.references)]
    is_cased = 2 * sum(line.upper() != line for line in lines) > len(lines)
    is_tokenized = 2 * sum(line.rstrip().endswith(" .") for line in lines) > len(lines)
    is_lower = is_cased and not any(map(str.isupper, "".join(lines)))
    reasons = {"the references have no upper case": is_lower, "the references look tokenized": is_tokenized}
    return [reason for reason, applies in reasons.items() if applies]
