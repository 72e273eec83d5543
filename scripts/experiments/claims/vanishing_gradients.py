"""Claim: gradients vanish through time without gates or attention."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from experiments.claim import Claim, Finding
from experiments.measures import Figure, Runs, Values
from experiments.runner import TrainedModel
from experiments.small_models import TRANSFORMER, small
from heed.models import build_model
from heed.models.seq2seq import Seq2Seq
from heed.symbols import BOS

Floats = npt.NDArray[np.float64]

LENGTH = 40
"""Source tokens."""
SENTENCES = 100
VANISHED = 0.01
"""The gradient of the first token counts as vanished below this share of the last token's gradient."""
FORWARD = "model.bidirectional=false"
"""The first token of a forward RNN is farthest from the decoder's initial state."""


def gradients(model: Seq2Seq, sources: Sequence[Sequence[int]], firsts: Sequence[int]) -> Floats:
    """‖∂loss/∂x_t‖ of the first target token's loss, by source position t.

    Args:
        sources: token ids, all of the same length S.
        firsts: the first token of each reference.

    Returns:
        Geometric mean over sentences, "S".
    """
    model.eval()
    embedded: list[Tensor] = []

    def record(module: nn.Module, arguments: tuple[Tensor, ...], output: Tensor) -> None:
        output.retain_grad()
        embedded.append(output)

    src = torch.tensor(sources)
    handle = model.get_submodule("src_embedding").register_forward_hook(record)
    memory = model.encode(src, torch.ones_like(src, dtype=torch.bool))
    handle.remove()
    logits = model.decode(torch.full((len(sources), 1), BOS), memory).logits[:, 0]
    torch.autograd.backward(nn.functional.cross_entropy(logits, torch.tensor(firsts), reduction="sum"))
    gradient = embedded[0].grad
    assert gradient is not None
    norms: Floats = gradient.double().norm(dim=-1).clamp_min(1e-300).log().mean(0).exp().numpy()
    return norms


def factor(norms: Floats) -> float:
    """Return the factor per position towards the start: a line fitted to the logarithm of the norms."""
    distances = np.arange(len(norms))[::-1]
    return float(np.exp(np.polyfit(distances, np.log(norms), 1)[0]))


def measure(run: TrainedModel) -> tuple[Floats, Floats]:
    """Return the gradients of a trained model and of an untrained model of the same configuration."""
    tokenizer = run.translator.tokenizer
    pairs = [
        (source[:LENGTH], target[0])
        for source, target in zip(
            tokenizer.encode_src(run.lines("long", "src")), tokenizer.encode_tgt(run.lines("long", "ref")), strict=True
        )
        if len(source) >= LENGTH
    ][:SENTENCES]
    sources, firsts = [source for source, _ in pairs], [first for _, first in pairs]
    torch.manual_seed(run.seed)
    fresh = build_model(run.model.config, src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab, joint=True)
    return gradients(run.model, sources, firsts), gradients(fresh, sources, firsts)


def experiment(runs: Runs) -> Finding:
    """Measure the gradient of the first target token's loss by source position."""
    found = {label: [measure(run) for run in seeds] for label, seeds in runs.items()}
    when = ("trained", "untrained")
    factors = {
        label: {state: Values(factor(both[i]) for both in seeds) for i, state in enumerate(when)}
        for label, seeds in found.items()
    }
    norms: dict[str, dict[str, Floats]] = {
        state: {label: np.exp(np.mean([np.log(both[i]) for both in seeds], axis=0)) for label, seeds in found.items()}
        for i, state in enumerate(when)
    }
    ratio = {label: Values(trained[0] / trained[-1] for trained, _ in seeds) for label, seeds in found.items()}
    plain, *others = ratio.values()
    return Finding(
        held=max(plain) < VANISHED and all(min(of) > VANISHED for of in others),
        summary=(
            f"Gradient of the first target token's loss with respect to the first of {LENGTH} source tokens, relative "
            f"to the last one: {', '.join(f'{of.mean:.2g} in the {label}' for label, of in ratio.items())}. Before "
            "training, each position further back multiplies the gradient by "
            f"{', '.join(format(of['untrained'].mean, '.2f') for of in factors.values())}."
        ),
        numbers={"first to last": ratio, "factor per token": factors, "norms": norms},
        table=[
            *(
                Figure(f"gradient of the first source token, relative to the last, after training: {label}", of, ".1%")
                for label, of in ratio.items()
            ),
            *(
                Figure(
                    f"factor on the gradient per token of distance, before training: {label}", of["untrained"], ".2f"
                )
                for label, of in factors.items()
            ),
        ],
    )


CLAIM = Claim(
    name="vanishing_gradients",
    claim="Gradients vanish through time without gates or attention.",
    measurement=(
        "‖∂loss/∂x_t‖ for the loss of the first target token, which translates the start of the source: the part "
        "farthest from the final state of a forward RNN. The claim holds if, for every seed, the first source token "
        f"gets less than {VANISHED:.0%} of the last one's gradient in the tanh RNN, and more in all other models "
        f"(Bengio et al. 1994)."
    ),
    models={
        "tanh RNN": small("rnn", "forward-tanh", FORWARD, "model/attention=none", "model.cell=tanh"),
        "GRU": small("rnn", "forward-gru", FORWARD, "model/attention=none", "model.cell=gru"),
        "LSTM": small("rnn", "forward-lstm", FORWARD, "model/attention=none"),
        "LSTM + attention": small("rnn", "forward-lstm-attention", FORWARD),
        "transformer": TRANSFORMER,
    },
    experiment=experiment,
)
