"""Claim: many heads can be removed after training."""

from collections.abc import Sequence

from experiments.claim import Claim, Finding
from experiments.claims.heads import SENTENCES, lost_bleu
from experiments.measures import Figure, Runs
from experiments.runner import TrainedModel
from experiments.small_models import LONG_STEPS, TRANSFORMER_LONGER
from heed.interventions import Edit

SHARE = 0.2
"""Of the heads, which must be removable: the smaller of the two shares of Michel et al. (2019, §4.2)."""


def pruning_order(run: TrainedModel) -> list[Edit]:
    """Return an edit that switches off each head, those first whose loss costs least BLEU on validation sentences."""
    lost = {
        (kind, layer, head): value
        for kind, values in lost_bleu(run).items()
        for layer, heads in enumerate(values.tolist())
        for head, value in enumerate(heads)
    }
    return [Edit(kind, "off", layers=[layer], heads=[head]) for kind, layer, head in sorted(lost, key=lost.__getitem__)]


def pruned_bleu(run: TrainedModel, order: Sequence[Edit]) -> list[float]:
    """Return the BLEU on test sentences without the first 0, 1, … heads of the order."""
    sources, references = (run.lines("test", side)[: 2 * SENTENCES] for side in ("src", "ref"))
    numbers = range(len(order) + 1)
    return [run.translator.with_edits(order[:number]).evaluate(sources, references, beam=1).bleu for number in numbers]


def removable(scores: Sequence[float]) -> int:
    """Return how many heads can go before the score falls by 1, given the scores without 0, 1, … heads."""
    return next((number for number, score in enumerate(scores) if score < scores[0] - 1), len(scores)) - 1


def experiment(runs: Runs) -> Finding:
    """Remove the heads one after the other, the least important first."""
    scores = [pruned_bleu(run, pruning_order(run)) for run in runs["transformer"]]
    numbers = [removable(of) for of in scores]
    heads = len(scores[0]) - 1
    return Finding(
        held=all(number >= SHARE * heads for number in numbers),
        summary=(
            f"Before BLEU on test sentences falls by 1, {' and '.join(map(str, numbers))} of {heads} heads can go. "
            f"Without half of the heads, BLEU falls from {' and '.join(f'{of[0]:.1f}' for of in scores)} to "
            f"{' and '.join(f'{of[heads // 2]:.1f}' for of in scores)}."
        ),
        numbers={"heads": heads, "removable": numbers, "bleu": scores},
        table=[
            Figure(f"heads of {heads} that can go before BLEU falls by 1", numbers),
            *(
                Figure(f"BLEU without the {number} least important heads", [of[number] for of in scores])
                for number in (0, heads // 4, heads // 2)
            ),
        ],
    )


CLAIM = Claim(
    name="pruning",
    claim="Many heads can be removed after training.",
    measurement=(
        "BLEU on test sentences without the n least important heads of all three attentions. The importance of a head "
        "is the BLEU lost on validation sentences without it, measured once (Michel et al. 2019; Voita et al. 2019 "
        f"also train on); after {LONG_STEPS:,} steps. The claim holds if for every seed at least {SHARE:.0%} of the "
        "heads can go before BLEU falls by 1 (Michel et al. 2019, §4.2)."
    ),
    models={"transformer": TRANSFORMER_LONGER},
    experiment=experiment,
)
