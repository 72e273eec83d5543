"""BLEU, chrF and TER through sacreBLEU, always with the signature that says how they were computed (Post 2018)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from heed.errors import HeedError

if TYPE_CHECKING:
    from sacrebleu.metrics import BLEU, CHRF

BLEU_TOKENIZERS = {"ja": "ja-mecab", "ko": "ko-mecab", "zh": "zh"}
"""Target languages in which spaces do not separate words. The rest take 13a, sacreBLEU's default."""


@dataclass(frozen=True)
class Scores:
    """Corpus scores from 0 to 100, case-sensitive, one reference a sentence."""

    bleu: float
    chrf: float
    bleu_signature: str
    chrf_signature: str
    not_comparable: str | None
    """Why these must not be held against published scores, of detokenised, mixed-case text; None where they may."""


@dataclass(frozen=True)
class Score:
    """A corpus score, how it was computed, and what it may not be held against."""

    value: float
    signature: str
    not_comparable: str | None
    """Why not with published scores, which are of detokenised, mixed-case text; None where it is."""


def metrics(tgt_lang: str, *, lowercase: bool = False, tokenize: str | None = None) -> "tuple[BLEU, CHRF]":
    """sacreBLEU's metrics as all scores here are computed.

    ``tgt_lang`` (``de``, ``zh-Hant``, ``ja_JP``) chooses BLEU's tokenizer where ``tokenize`` does not. Japanese and
    Korean are cut into words by MeCab where the extra ``heed[ja]`` or ``heed[ko]`` is installed and into characters
    where not; the signature tells.
    """
    from sacrebleu.metrics import BLEU, CHRF

    if tokenize is not None and tokenize not in BLEU.TOKENIZERS:
        raise HeedError(f"BLEU knows no tokenizer {tokenize!r}: choose one of {', '.join(BLEU.TOKENIZERS)}.")
    # ``force`` changes no score: it only silences a warning about lines that end in " .".
    try:
        bleu = BLEU(tokenize=tokenize or usual_tokenizer(tgt_lang), lowercase=lowercase, force=True)
    except (RuntimeError, OSError) as error:  # sacreBLEU's words for "MeCab is not installed", "no network"
        if tokenize is not None:
            raise HeedError(f"BLEU's tokenizer {tokenize} cannot be used: {' '.join(str(error).split())}") from error
        bleu = BLEU(tokenize="char", lowercase=lowercase, force=True)
    return bleu, CHRF(lowercase=lowercase)


def usual_tokenizer(tgt_lang: str) -> str:
    """What published BLEU scores of this target language were cut into words by."""
    return BLEU_TOKENIZERS.get(tgt_lang.lower().replace("_", "-").split("-")[0], "13a")


def corpus_scores(hypotheses: Sequence[str], references: Sequence[str], *, tgt_lang: str) -> Scores:
    """The scores that ``sacrebleu`` gives for the same lines in files; ``tgt_lang`` as in `metrics`."""
    _see_that_lines_match(hypotheses, [references])
    bleu, chrf = metrics(tgt_lang)
    oddities = [*_unusual_tokenizer(bleu, tgt_lang), *_oddities([references])]
    return Scores(
        bleu=bleu.corpus_score(hypotheses, [references]).score,
        chrf=chrf.corpus_score(hypotheses, [references]).score,
        bleu_signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
        not_comparable="; ".join(oddities) or None,
    )


def _unusual_tokenizer(bleu: "BLEU", tgt_lang: str) -> list[str]:
    """What is to be said where BLEU does not cut this language into words as published scores do."""
    usual, used = usual_tokenizer(tgt_lang), str(bleu.tokenizer_signature)
    return [] if used.startswith(usual) else [f"words cut by tokenizer {used}, not {usual}"]


def report(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    tgt_lang: str,
    lowercase: bool = False,
    tokenize: str | None = None,
) -> dict[str, Score]:
    """BLEU, chrF and TER (0 is best) against one or several references a sentence, each "sentence" long.

    ``lowercase`` is for BLEU and chrF, since TER is case-insensitive anyway as sacreBLEU, and nearly everybody,
    computes it; ``tokenize`` is for BLEU. In languages written without spaces TER counts characters.
    """
    from sacrebleu.metrics import TER

    _see_that_lines_match(hypotheses, references)
    bleu, chrf = metrics(tgt_lang, lowercase=lowercase, tokenize=tokenize)
    spaceless = usual_tokenizer(tgt_lang) in ("zh", "ja-mecab")
    ter = TER(normalized=spaceless, asian_support=spaceless)

    lowered = ["lower-cased"] if lowercase else []
    cut = _unusual_tokenizer(bleu, tgt_lang)
    oddities = _oddities(references)
    scores = {}
    for name, metric, own in (("BLEU", bleu, lowered + cut), ("chrF", chrf, lowered), ("TER", ter, [])):
        value = float(metric.corpus_score(hypotheses, references).score)
        scores[name] = Score(value, str(metric.get_signature()), "; ".join(own + oddities) or None)
    return scores


def _oddities(references: Sequence[Sequence[str]]) -> list[str]:
    """What the references themselves show to be unlike the text that published scores are of."""
    lines = [line for reference in references for line in reference]
    found = []
    if not any(map(str.isupper, "".join(lines))) and 2 * sum(line.upper() != line for line in lines) > len(lines):
        found.append("the references have no upper case")
    if 2 * sum(line.rstrip().endswith(" .") for line in lines) > len(lines):
        found.append("the references look tokenised")
    return found


def _see_that_lines_match(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    for reference in references:
        if len(hypotheses) != len(reference):
            raise HeedError(
                f"{len(hypotheses)} translations cannot be scored against {len(reference)} references: "
                "each translation needs one, in the same order."
            )
    if not hypotheses:
        raise HeedError("There is nothing to score: give at least one translation and its reference.")
