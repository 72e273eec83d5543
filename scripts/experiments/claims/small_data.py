"""Claim: transformers overfit small data."""

from experiments.claim import Claim, Finding
from experiments.measures import Figure, Runs, bleu, over_seeds
from experiments.runner import ModelSpec, TrainedModel
from experiments.small_models import RNN, TRANSFORMER, small
from heed.runs.config import read_config

SIZES = (500, 2_000, 24_000)
SENTENCES = 500
FAMILIES = {"RNN + attention": RNN, "transformer": TRANSFORMER}


def _sized(spec: ModelSpec, size: int) -> ModelSpec:
    return spec if size == SIZES[-1] else small(spec.name, f"{spec.name}-{size}", f"data.max_train={size}")


def _label(family: str, size: int) -> str:
    return f"{family}, {size:,} pairs"


def gap(run: TrainedModel) -> float:
    """Validation loss minus training loss, in nats per token, without dropout."""
    train = training_pairs(run)
    valid = run.lines("valid", "src"), run.lines("valid", "ref")
    return _loss(run, *valid) - _loss(run, *train)


def training_pairs(run: TrainedModel) -> tuple[list[str], list[str]]:
    """Return the sources and targets that the run was trained on."""
    from heed.launch.parts import build_parts

    (train,) = build_parts(read_config(run.folder))["data"].load().train.texts
    blocks = [train.clean.read(number)[0] for number in train.clean.blocks]
    return [text for block in blocks for text in block.src], [text for block in blocks for text in block.tgt]


def _loss(run: TrainedModel, sources: list[str], targets: list[str]) -> float:
    sources, targets = sources[:SENTENCES], targets[:SENTENCES]
    tokens = sum(len(ids) + 1 for ids in run.translator.tokenizer.encode_tgt(targets))
    return -sum(run.translator.score(sources, targets)) / tokens


def experiment(runs: Runs) -> Finding:
    """Measure the gap between validation and training loss by corpus size."""
    gaps, scores = (
        {family: {size: found[_label(family, size)] for size in SIZES} for family in FAMILIES}
        for found in (over_seeds(runs, gap), bleu(runs, "test"))
    )
    few, many = SIZES[0], SIZES[-1]
    (rnn, rnn_bleu), (transformer, transformer_bleu) = ((gaps[family], scores[family]) for family in FAMILIES)
    return Finding(
        held=min(transformer[few]) > max(max(rnn[few]), max(transformer[many])),
        summary=(
            f"With {few} pairs the validation loss exceeds the training loss by {transformer[few]:.2f} nats per token "
            f"for the transformer and by {rnn[few]:.2f} for the RNN; with {many:,} pairs by {transformer[many]:.2f} "
            f"and {rnn[many]:.2f}. Test BLEU with {few} pairs: {transformer_bleu[few]:.1f} and {rnn_bleu[few]:.1f}."
        ),
        numbers={"gap": gaps, "test bleu": scores},
        table=[
            *(
                Figure(f"validation minus training loss with {few} pairs in nats, {family}", of[few], ".2f")
                for family, of in gaps.items()
            ),
            *(Figure(f"BLEU with {few} pairs, {family}", of[few]) for family, of in scores.items()),
        ],
    )


CLAIM = Claim(
    name="small_data",
    claim="Transformers overfit small data.",
    measurement=(
        "The gap between validation and training loss after the same number of steps, by number of training pairs. "
        "The claim holds if for every seed the transformer's gap on the smallest corpus is larger than the RNN's gap "
        "there and than its own gap on the largest corpus."
    ),
    models={_label(family, size): _sized(spec, size) for family, spec in FAMILIES.items() for size in SIZES},
    experiment=experiment,
)
