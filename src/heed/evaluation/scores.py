"""BLEU and chrF through sacreBLEU, always with the signature that says how they were computed (Post 2018)."""

from collections.abc import Sequence
from dataclasses import dataclass

from heed.errors import HeedError

BLEU_TOKENIZERS = {"ja": "ja-mecab", "ko": "ko-mecab", "zh": "zh"}
"""Target languages in which spaces do not separate words. The rest take 13a, sacreBLEU's default."""


@dataclass(frozen=True)
class Scores:
    """Corpus scores from 0 to 100, case-sensitive, one reference a sentence."""

    bleu: float
    chrf: float
    bleu_signature: str
    chrf_signature: str


def corpus_scores(hypotheses: Sequence[str], references: Sequence[str], *, tgt_lang: str) -> Scores:
    """The scores that ``sacrebleu`` gives for the same lines in files.

    ``tgt_lang`` (``de``, ``zh-Hant``, ``ja_JP``) chooses BLEU's tokenizer. Japanese and Korean are cut into words by
    MeCab where the extra ``heed[ja]`` or ``heed[ko]`` is installed and into characters where not; the signature tells.
    """
    from sacrebleu.metrics import BLEU, CHRF

    if len(hypotheses) != len(references):
        raise HeedError(
            f"{len(hypotheses)} translations cannot be scored against {len(references)} references: "
            "each translation needs one, in the same order."
        )
    if not references:
        raise HeedError("There is nothing to score: give at least one translation and its reference.")
    language = tgt_lang.lower().replace("_", "-").split("-")[0]
    # ``force`` changes no score: it only silences a warning about lines that end in " .".
    try:
        bleu = BLEU(tokenize=BLEU_TOKENIZERS.get(language, "13a"), force=True)
    except RuntimeError:  # sacreBLEU's word for "MeCab is not installed"
        bleu = BLEU(tokenize="char", force=True)
    chrf = CHRF()
    return Scores(
        bleu=bleu.corpus_score(hypotheses, [references]).score,
        chrf=chrf.corpus_score(hypotheses, [references]).score,
        bleu_signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
    )
