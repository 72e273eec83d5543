"""Which head carries what tells two sentences apart: patching (Meng et al. 2022, §2; Wang et al. 2022, §3).

Run a sentence with the attention weights that a head has in another sentence, and measure how far the prediction moves
to that of the other sentence. The head then looks where it looks there; what it finds at that place is unchanged.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from heed.comparison.challenge import ContrastivePair
from heed.errors import HeedError
from heed.evaluation.significance import Floats, bootstrap_interval
from heed.inference.engine import TorchEngine, pad
from heed.inference.lines import encode_lines
from heed.inference.outputs import Attended
from heed.inference.translator import Translator
from heed.layers.edits import AttentionKind, Edit, Edits
from heed.models.seq2seq import AttentionMaps, Seq2Seq
from heed.symbols import BOS, EOS

Place = tuple[AttentionKind, int | None, int | None]
"""An attention, its layer and its head, counted from 0; None: all."""
TwinRow = tuple[list[int], list[int], list[int], list[int]]
"""The token ids of a source, of its twin's source, of the decoder's input, and of the own and the other word."""


@dataclass(frozen=True)
class PatchedHead:
    """The effect of the weights of one head, or of all heads of a kind of attention."""

    attention: AttentionKind
    layer: int | None
    head: int | None
    """Counted from 0; None: all."""
    restored: float
    """The part of the difference in log-odds, log p(other word) − log p(own word), that the patch makes up, summed over
    sentences: 0 is the prediction of the sentence itself, 1 that of its twin."""
    interval: tuple[float, float]
    """95 % bootstrap interval over twins."""
    probability: Float[np.ndarray, " N"]
    """p(other word) in each sentence with the patch."""


@dataclass(frozen=True)
class Patching:
    """What `patch` measures in N sentences."""

    sentences: Sequence[ContrastivePair]
    before: Float[np.ndarray, " N"]
    after: Float[np.ndarray, " N"]
    """p(other word) in each sentence without a patch, and in its twin."""
    heads: Sequence[PatchedHead]
    best: PatchedHead
    """The single head that restores most."""
    example: int
    """The sentence in which the best head has its median effect: the change of p(other word)."""
    attended: Sequence[Attended]
    """This sentence and its twin."""


def patch(translator: Translator, contrasts: Sequence[ContrastivePair]) -> Patching:
    """Patch one head at a time in all positions, under teacher forcing, with its weights in the twin of each sentence.

    Args:
        contrasts: twins after each other. The good translation of one starts as the bad one of the other, up to the
            first subword in which good and bad differ, which is predicted. Others are left out, and twins with unequal
            numbers of subwords in their sources: the columns of their maps do not correspond.

    Raises:
        HeedError: if there is no head, no twins can be used, or the model does not tell them apart.
    """
    if not (available := translator.model.attention_heads):
        raise HeedError("This model has no attention heads to patch.")
    used, rows = _find_twins(translator, contrasts)
    if not used:
        raise HeedError("There are no twins with equally many subwords in the challenge set.")
    places: list[Place] = [(kind, *at) for kind, sizes in available.items() for at in np.ndindex(sizes)]
    places += [(kind, None, None) for kind in available]
    size = max(1, translator.batch_tokens // max(len(ids) for row in rows for ids in row[:3]))
    parts: list[list[Floats]] = []
    with TorchEngine(translator.model).inference_mode() as model:
        for start in range(0, len(rows), size):
            parts.append([])
            for log_p in _log_probs(model, rows[start : start + size], places):
                parts[-1].append(log_p)
                translator.on_batch(len(log_p))
    own, other, *patched = (np.concatenate(batches) for batches in zip(*parts, strict=True))
    difference = np.diff(other - own)
    if difference.sum() <= 0:
        raise HeedError("The model does not tell these sentences from their twins: there is nothing to restore.")
    heads = []
    for place, log_p in zip(places, patched, strict=True):
        values = np.hstack((np.diff(log_p - own), difference)).reshape(-1, 2, 2).sum(1)  # of both twins
        restored, whole = values.sum(0)
        interval = bootstrap_interval(values, lambda sums: sums[:, 0] / sums[:, 1])
        heads.append(PatchedHead(*place, float(restored / whole), interval, np.exp(log_p[:, 1])))
    best = max((head for head in heads if head.head is not None), key=lambda head: head.restored)
    middle = int((best.probability - np.exp(own[:, 1])).argsort()[len(used) // 2])
    attended = translator.attend([used[middle].src, used[middle ^ 1].src], [used[middle].good, used[middle ^ 1].good])
    return Patching(used, np.exp(own[:, 1]), np.exp(other[:, 1]), heads, best, middle, attended)


def _find_twins(
    translator: Translator, contrasts: Sequence[ContrastivePair]
) -> tuple[list[ContrastivePair], list[TwinRow]]:
    """Return the sentences that can be patched, twins after each other, and the token ids of each."""
    encoders, limit = (translator.tokenizer.encode_src, *[translator.tokenizer.encode_tgt] * 2), translator.max_tokens
    texts = [[each.src for each in contrasts], [each.good for each in contrasts], [each.bad for each in contrasts]]
    encoded = (encode_lines(*each, max_tokens=limit) for each in zip(encoders, texts, strict=True))
    src, good, bad = ([[*ids, EOS] for ids in lines] for lines in encoded)
    used, rows = [], []
    for a, b in zip(range(0, len(src), 2), range(1, len(src), 2), strict=False):
        first = next((t for t, (own, other) in enumerate(zip(good[a], bad[a], strict=False)) if own != other), None)
        if first is None or len(src[a]) != len(src[b]):
            continue
        prefix, own, other = good[a][:first], good[a][first], bad[a][first]
        if good[b][: first + 1] == [*prefix, other] and bad[b][: first + 1] == [*prefix, own]:
            used += [contrasts[a], contrasts[b]]
            rows += [
                (src[a], src[b], [BOS, *prefix], [own, other]),
                (src[b], src[a], [BOS, *prefix], [other, own]),
            ]
    return used, rows


def _log_probs(model: Seq2Seq, rows: Sequence[TwinRow], places: Sequence[Place]) -> Iterator[Floats]:
    """Yield log p "B 2" of the own and the other word: without a patch, after the twin's source, with each patch."""
    (src, mask), (twin, _), (tgt_in, tgt_mask), (words, _) = (pad(ids, model.device) for ids in zip(*rows, strict=True))
    last = tgt_mask.sum(1, keepdim=True)[..., None] - 1

    def run(ids: Int[Tensor, "B S"], edits: Edits = ()) -> tuple[Floats, AttentionMaps | None]:
        memory = model.encode(ids, mask, maps=True, edits=edits)
        output = model.decode(tgt_in, memory, maps=True, edits=edits)
        log_p = output.logits.take_along_dim(last, 1).squeeze(1).log_softmax(1).gather(1, words)
        return log_p.double().cpu().numpy(), output.attention

    yield run(src)[0]
    log_p, maps = run(twin)
    yield log_p
    for kind, layer, head in places:
        layers, heads = (None if number is None else [number] for number in (layer, head))
        yield run(src, [Edit(kind, getattr(maps, kind), layers, heads)])[0]
