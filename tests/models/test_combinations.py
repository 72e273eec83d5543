"""Every two options of a model together: gradients and single steps; and the combinations that are refused."""

import copy
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import yaml
from hydra.utils import instantiate
from omegaconf import OmegaConf
from torch.testing import assert_close

from heed.errors import HeedError
from heed.launch.compose import Command
from heed.launch.compose import compose as compose_run
from heed.launch.plan import check_options
from heed.layers.attention import PRODUCTS
from heed.models import build_model
from heed.models.seq2seq import Seq2Seq
from heed.symbols import BOS, EOS
from tests.pairwise import pairwise

B, S, T, V = 3, 7, 5, 19

Compose = Callable[..., Command]

TRANSFORMER: dict[str, list[Any]] = {
    "model/positions": ["none", "sinusoidal", "learned", "rotary", "alibi", "relative"],
    "model.positions.merge": ["null", "add", "concat"],
    "model/self_attention": ["qkv", "parameter_free"],
    "model.self_attention.score": ["scaled_dot", "dot", "general", "additive"],
    "model.cross_attention.score": ["scaled_dot", "dot", "general", "additive"],
    "model.norm": ["pre", "post", "none"],
    "model.norm_kind": ["layer", "rms"],
    "model.residual": ["true", "false"],
    "model.activation": ["relu", "gelu", "silu", "swiglu"],
    "model.output_bias": ["true", "false"],
    "model.tie_embeddings": ["true", "false"],
    "model.encoder_layers": [1, 2],
    "model.decoder_layers": [1, 2],
    "model.attention_dropout": [0.0, 0.1],
    "model.layer_dropout": [0.0, 0.1],
}
RNN: dict[str, list[Any]] = {
    "model/attention": ["dot", "scaled_dot", "general", "concat", "additive", "location", "none"],
    "model.attention.reach": ["global", "local_m", "local_p"],
    "model.attention.order": ["luong", "bahdanau"],
    "model.attention.input_feeding": ["true", "false"],
    "model.attention.coverage": ["true", "false"],
    "model.cell": ["tanh", "lstm", "gru"],
    "model.layers": [1, 2],
    "model.residual": ["true", "false"],
    "model.bidirectional": ["true", "false"],
    "model.reverse_source": ["true", "false"],
}
TINY = {
    "transformer": ["model=transformer", "model.d_model=12", "model.num_heads=2", "model.d_ff=10"],
    "rnn": ["model=rnn", "model.d_embedding=10", "model.d_model=12", "model.dropout=0.1"],
}


def allowed_transformer(row: Mapping[str, Any]) -> bool:
    merges = row["model/positions"] in ("sinusoidal", "learned")
    return (row["model.positions.merge"] != "null") == merges and not (
        (row["model.norm"] == "none" and row["model.norm_kind"] == "rms")
        or (
            (row["model/self_attention"] == "parameter_free" or row["model/positions"] == "rotary")
            and row["model.self_attention.score"] not in PRODUCTS
        )
    )


def allowed_rnn(row: Mapping[str, Any]) -> bool:
    fed, covering = row["model.attention.input_feeding"] == "true", row["model.attention.coverage"] == "true"
    return (
        not (fed and row["model.attention.order"] == "bahdanau")
        and not (covering and row["model/attention"] not in ("concat", "additive"))
        and not (row["model/attention"] == "none" and (fed or row["model.attention.reach"] != "global"))
        and not (row["model.bidirectional"] == row["model.reverse_source"] == "true")
        and not (row["model.layers"] == 1 and row["model.residual"] == "true")
    )


@cache
def choose(*groups: str) -> Any:
    """Return the configuration of a model with these choices of groups."""
    return OmegaConf.create(compose_run(groups).options["model"])


def build(row: Mapping[str, Any], *options: str) -> Seq2Seq:
    """Build the model that a row of options describes, in eval mode."""
    words = [*options, *overrides(row).split()]
    config = copy.deepcopy(choose(*(word for word in words if "/" in word or word.startswith("model="))))
    for word in words:
        name, _, value = word.partition("=")
        if name.startswith("model.") and "/" not in name:
            OmegaConf.update(config, name.removeprefix("model."), yaml.safe_load(value))
    return build_model(instantiate(config, _convert_="all"), src_vocab=V, tgt_vocab=V, joint=True).eval()


def check_gradients_and_steps(model: Seq2Seq) -> None:
    """Check that the loss has finite gradients by every parameter, and that stepping equals teacher forcing."""
    src, mask = torch.randint(EOS + 1, V, (B, S)), torch.arange(S) < torch.tensor([S, 1, 4])[:, None]
    tgt = torch.randint(EOS + 1, V, (B, T))
    read = torch.cat((torch.full((B, 1), BOS), tgt[:, :-1]), 1)
    F.cross_entropy(model.train()(src, mask, read).flatten(0, 1), tgt.flatten()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
    model.eval()
    memory = model.encode(src, mask)
    logits, state = model.decode(read, memory).logits, model.start(memory)
    for t in range(T):
        output, state = model.step(read[:, t], state)
        assert_close(output.logits, logits[:, t : t + 1])


def overrides(row: Mapping[str, Any]) -> str:
    return " ".join(f"{option}={value}" for option, value in row.items())


@pytest.mark.parametrize("row", pairwise(TRANSFORMER, allowed_transformer), ids=overrides)
def test_every_two_options_of_a_transformer_together(row: Mapping[str, Any]) -> None:
    check_gradients_and_steps(build(row, *TINY["transformer"]))


@pytest.mark.parametrize("row", pairwise(RNN, allowed_rnn), ids=overrides)
def test_every_two_options_of_an_rnn_together(row: Mapping[str, Any]) -> None:
    window = ["model.attention.window=2"] * (row["model.attention.reach"] != "global")
    check_gradients_and_steps(build(row, *TINY["rnn"], *window))


REFUSED = {
    "transformer": {
        "model.d_model=13": r"model\.d_model=13 must be a multiple of model\.num_heads=2\.",
        "model.num_heads=0": r"model\.num_heads=0 must be an integer >= 1\.",
        "model.d_model=6 model/positions=rotary": r"rotary needs an even number of dimensions per head, .* give 3",
        "model.positions.kind=fourier": r"model\.positions\.kind=fourier must be none or sinusoidal or .* or relative",
        "model.positions.merge=multiply": r"model\.positions\.merge=multiply must be add or concat or null\.",
        "model.positions.merge=null": r"merge=null contradicts model\.positions\.kind=sinusoidal: choose add or",
        "model/positions=rotary model.positions.merge=add": r"merge=add contradicts model\.positions\.kind=rotary",
        "model/positions=none model.positions.merge=concat": r"merge=concat contradicts model\.positions\.kind=none",
        "model/positions=alibi model.positions.max_length=9": r"max_length=9 contradicts model\.positions\.kind=alibi",
        "model/positions=none model.positions.max_length=9": r"max_length=9 contradicts model\.positions\.kind=none",
        "model.positions.max_length=9": r"max_length=9 contradicts model\.positions\.kind=sinusoidal",
        "model/positions=learned model.positions.max_length=null": r"max_length=null contradicts .*kind=learned",
        "model.self_attention.kind=kv": r"model\.self_attention\.kind=kv must be qkv or parameter_free\.",
        "model.norm=sandwich": r"model\.norm=sandwich must be pre or post or none\.",
        "model.norm_kind=batch": r"model\.norm_kind=batch must be layer or rms\.",
        "model.norm=none model.norm_kind=rms": r"norm_kind=rms has no effect with model\.norm=none",
        "model.activation=swish": r"model\.activation=swish must be relu or gelu or silu or swiglu\.",
        "model.encoder_layers=0": r"model\.encoder_layers=0 must be an integer in \[1, 1000\]\.",
        "model.decoder_layers=0": r"model\.decoder_layers=0 must be an integer in \[1, 1000\]\.",
        "model.layer_dropout=1.0": r"model\.layer_dropout=1.0 must be a number in \[0, 1\)\.",
    },
    "rnn": {
        "model.cell=elman": r"model\.cell=elman must be tanh or lstm or gru\.",
        "model.d_model=13": r"model\.d_model=13 must be even: each direction of a bidirectional encoder",
        "model.d_embedding=0": r"model\.d_embedding=0 must be an integer >= 1\.",
        "model.layers=0": r"model\.layers=0 must be an integer in \[1, 1000\]\.",
        "model.layers=1 model.residual=true": r"residual=true has no effect with model\.layers=1: choose",
        "model.reverse_source=true": r"reverse_source=true contradicts model\.bidirectional=true",
        "model.dropout=1.0": r"model\.dropout=1\.0 must be a number in \[0, 1\)\.",
        "model.attention.score=bilinear": r"model\.attention\.score=bilinear must be dot or .* or none\.",
        "model.attention.reach=far": r"model\.attention\.reach=far must be global or local_m or local_p\.",
        "model.attention.order=graves": r"model\.attention\.order=graves must be luong or bahdanau\.",
        "model.attention.order=bahdanau": r"input_feeding=true contradicts model\.attention\.order=bahdanau",
        "model.attention.coverage=true": r"coverage=true is not supported by .*score=general: choose additive or",
        "model.attention.reach=local_p model.attention.window=0": r"window=0 must be an integer >= 1 or null\.",
        "model.attention.reach=local_m model.attention.window=null": r"window=null contradicts .*reach=local_m: give",
        "model.attention.max_source=50": r"max_source=50 contradicts model\.attention\.score=general",
        "model.attention.score=location": r"max_source=null contradicts model\.attention\.score=location",
        "model/attention=location model.attention.max_source=0": r"max_source=0 must be an integer >= 1 or null\.",
        "model/attention=none model.attention.input_feeding=true": r"input_feeding=true needs attention: choose",
        "model/attention=none model.attention.reach=local_m": r"reach=local_m needs attention: choose",
        "model.attention.window=5": r"window=5 has no effect with .*reach=global: choose",
        "model/attention=none model.attention.window=5": r"window=5 needs attention: choose",
        "model/attention=none model.attention.max_source=5": r"max_source=5 needs attention: choose",
        "model/attention=none model.attention.coverage=true": r"coverage=true needs attention: choose",
    },
}


@pytest.mark.parametrize(("family", "settings"), [(family, each) for family in REFUSED for each in REFUSED[family]])
def test_contradictions_are_refused_in_a_sentence(compose: Compose, family: str, settings: str) -> None:
    with pytest.raises(HeedError, match=REFUSED[family][settings]):
        check_options(compose(*TINY[family], *settings.split()).options)
