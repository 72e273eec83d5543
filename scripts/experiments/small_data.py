"""How both architectures do with few sentences."""

from typing import Any

import yaml

from experiments.claim import Claim, Finding
from experiments.laboratory import Laboratory, Recipe, Trained, shown, spread
from experiments.plots import Line, line_plot, table
from experiments.recipes import RNN, TRANSFORMER, small

SIZES = (500, 2_000, 24_000)
SENTENCES = 500


def _sized(family: str, size: int) -> Recipe:
    if size == SIZES[-1]:
        return {"transformer": TRANSFORMER, "rnn": RNN}[family]
    return small(family, f"{family}-{size}", f"data.max_train={size}")


MODELS = {
    "RNN + attention": {size: _sized("rnn", size) for size in SIZES},
    "transformer": {size: _sized("transformer", size) for size in SIZES},
}


def gap(run: Trained) -> float:
    """Nats by which a token of a validation sentence is harder to predict than one of a training sentence."""
    train = training_pairs(run)
    valid = run.lines("valid", "src"), run.lines("valid", "ref")
    return _loss(run, *valid) - _loss(run, *train)


def training_pairs(run: Trained) -> tuple[list[str], list[str]]:
    """Sources and targets that the run was trained on."""
    from hydra.utils import instantiate

    config: dict[str, Any] = yaml.safe_load((run.folder / "config.yaml").read_text(encoding="utf-8"))
    train = instantiate(config["data"], _convert_="all").load().train
    return list(train["src"]), list(train["tgt"])


def _loss(run: Trained, sources: list[str], targets: list[str]) -> float:
    sources, targets = sources[:SENTENCES], targets[:SENTENCES]
    tokens = sum(len(ids) + 1 for ids in run.translator.tokenizer.encode_tgt(targets))
    return -sum(run.translator.score(sources, targets)) / tokens


def experiment(laboratory: Laboratory) -> Finding:
    runs = {
        label: {size: laboratory.runs(recipe) for size, recipe in by_size.items()} for label, by_size in MODELS.items()
    }
    gaps = {label: {size: spread(map(gap, of)) for size, of in by_size.items()} for label, by_size in runs.items()}
    bleu = {
        label: {size: spread(run.bleu("test") for run in of) for size, of in by_size.items()}
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
            f"With {smallest} pairs a validation token costs the transformer {shown(transformer[smallest], 2)} nats "
            f"more than a training token, the RNN {shown(rnn[smallest], 2)}; with {largest:,} pairs "
            f"{shown(transformer[largest], 2)} and {shown(rnn[largest], 2)}. Test BLEU with {smallest} pairs: "
            f"{shown(bleu['transformer'][smallest])} and {shown(bleu['RNN + attention'][smallest])}."
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
                y="validation loss − training loss, nats a token, both without dropout",
                log_x=True,
                ticks=[(size, f"{size:,}") for size in SIZES],
            ),
            table(
                ["test BLEU", *(f"{size:,} pairs" for size in SIZES)],
                [[label, *(shown(of[size]) for size in SIZES)] for label, of in bleu.items()],
            ),
        ],
    )


CLAIM = Claim(
    name="small_data",
    claim="Transformers overfit small data.",
    measurement=(
        "The gap between validation and training loss after equally many steps, against the number of training pairs. "
        "It holds if for every seed the transformer's gap on the smallest corpus is larger than the RNN's there, and "
        "than its own on the largest."
    ),
    recipes=tuple(recipe for by_size in MODELS.values() for recipe in by_size.values()),
    experiment=experiment,
)
