"""The small models that several experiments share. All of them together train within an hour on two cores."""

from experiments.runner import ModelSpec

STEPS = 500

COMMON = (
    "data=synthetic",
    "trainer=cpu",
    "search=greedy",
    "logger=none",
    "callbacks.attention_maps=null",
    "callbacks.attention_heads=null",
    "trainer.keep_best=1",
    f"trainer.max_steps={STEPS}",
    f"trainer.validate_every={STEPS}",
    "schedule.warmup_steps=100",
    "data.long=200",
)
"""Options of ``train.py`` for all models."""

SMALL = {
    "transformer": (
        "model=transformer",
        "model.d_model=128",
        "model.d_ff=256",
        "model.dropout=0.1",
        "optimizer.lr=3.0e-3",
    ),
    "rnn": ("model=rnn", "model.d_model=256", "model.d_embedding=128", "model.dropout=0.2", "optimizer.lr=3.0e-3"),
}
"""Small enough to train in a minute."""


def small(family: str, name: str, *overrides: str, seeds: int = 2) -> ModelSpec:
    """A small transformer or RNN with some options changed."""
    return ModelSpec(name, (*SMALL[family], *overrides), seeds)


TRANSFORMER = small("transformer", "transformer")
RNN = small("rnn", "rnn")
FIXED_VECTOR = small("rnn", "rnn-none", "model/attention=none")

LONG_STEPS = 2000


def longer(spec: ModelSpec) -> ModelSpec:
    """The same model trained for `LONG_STEPS`: pronouns and the roles of heads are learned late."""
    steps = f"trainer.max_steps={LONG_STEPS}", f"trainer.validate_every={LONG_STEPS}"
    return ModelSpec(f"{spec.name}-longer", (*spec.overrides, *steps), spec.seeds)


TRANSFORMER_LONGER = longer(TRANSFORMER)
RNN_LONGER = longer(RNN)
FIXED_VECTOR_LONGER = longer(FIXED_VECTOR)
PARAMETER_FREE_LONGER = longer(
    small("transformer", "transformer-parameter-free", "model/self_attention=parameter_free")
)
