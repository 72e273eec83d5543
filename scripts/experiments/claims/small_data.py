"""Claim: transformers overfit small data."""

from experiments.aggregate import format_mean, mean_and_sd
from experiments.claim import Claim, Finding
from experiments.plots import Line, line_plot, table
from experiments.runner import ExperimentRunner, ModelSpec, TrainedModel
from experiments.small_models import RNN, TRANSFORMER, small
from heed.runs.config import read_config

SIZES = (500, 2_000, 24_000)
SENTENCES = 500


def _sized(family: str, size: int) -> ModelSpec:
    if size == SIZES[-1]:
        return {"transformer": TRANSFORMER, "rnn": RNN}[family]
    return small(family, f"{family}-{size}", f"data.max_train={size}")


MODELS = {
    "RNN + attention": {size: _sized("rnn", size) for size in SIZES},
    "transformer": {size: _sized("transformer", size) for size in SIZES},
}


def gap(run: TrainedModel) -> float:
    """Validation loss minus training loss, in nats per token, without dropout."""
    train = training_pairs(run)
    valid = run.lines("valid", "src"), run.lines("valid", "ref")
    return _loss(run, *valid) - _loss(run, *train)


def training_pairs(run: TrainedModel) -> tuple[list[str], list[str]]:
    """Return the sources and targets that the run was trained on."""
    from heed.launch.configuration import build_parts

    train = build_parts(read_config(run.folder))["data"].load().train
    blocks = list(train.blocks())
    return [text for block in blocks for text in block.src], [text for block in blocks for text in block.tgt]


def _loss(run: TrainedModel, sources: list[str], targets: list[str]) -> float:
    sources, targets = sources[:SENTENCES], targets[:SENTENCES]
    tokens = sum(len(ids) + 1 for ids in run.translator.tokenizer.encode_tgt(targets))
    return -sum(run.translator.score(sources, targets)) / tokens


def experiment(runner: ExperimentRunner) -> Finding:
    """Measure the gap between validation and training loss by corpus size."""
    runs = {label: {size: runner.trained(spec) for size, spec in by_size.items()} for label, by_size in MODELS.items()}
    gaps = {label: {size: mean_and_sd(map(gap, of)) for size, of in by_size.items()} for label, by_size in runs.items()}
    bleu = {
        label: {size: mean_and_sd(run.bleu("test") for run in of) for size, of in by_size.items()}
        for label, by_size in runs.items()
    }
    smallest, largest = SIZES[0], SIZES[-1]
    rnn, transformer = gaps["RNN + attention"], gaps["transformer"]
    held = min(transformer[smallest]["values"]) > max(rnn[smallest]["values"]) and min(
        transformer[smallest]["values"]
    ) > max(transformer[largest]["values"])
    return Finding(
        held=held,
        summary=(
            f"With {smallest} pairs the validation loss exceeds the training loss by "
            f"{format_mean(transformer[smallest], 2)} nats per token for the transformer and by "
            f"{format_mean(rnn[smallest], 2)} for the RNN; with {largest:,} pairs by "
            f"{format_mean(transformer[largest], 2)} and {format_mean(rnn[largest], 2)}. Test BLEU with {smallest} "
            f"pairs: {format_mean(bleu['transformer'][smallest])} and {format_mean(bleu['RNN + attention'][smallest])}."
        ),
        numbers={
            "gap": {label: {str(size): of[size] for size in SIZES} for label, of in gaps.items()},
            "test bleu": {label: {str(size): of[size] for size in SIZES} for label, of in bleu.items()},
        },
        figures=[
            line_plot(
                [
                    Line(
                        label,
                        [(size, of[size]["mean"]) for size in SIZES],
                        [(size, value) for size in SIZES for value in of[size]["values"]],
                    )
                    for label, of in gaps.items()
                ],
                name="Overfitting against corpus size",
                x="training pairs",
                y="validation loss − training loss, nats per token, both without dropout",
                log_x=True,
                ticks=[(size, f"{size:,}") for size in SIZES],
            ),
            table(
                ["test BLEU", *(f"{size:,} pairs" for size in SIZES)],
                [[label, *(format_mean(of[size]) for size in SIZES)] for label, of in bleu.items()],
            ),
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
    models=tuple(spec for by_size in MODELS.values() for spec in by_size.values()),
    experiment=experiment,
)
