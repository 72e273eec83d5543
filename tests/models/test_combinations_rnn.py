"""Every two options of an RNN together: gradients and single steps; and the combinations that are refused."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from heed.errors import HeedError
from heed.launch.compose import Command
from heed.launch.plan import check_options
from tests.models.test_combinations import build, check_gradients_and_steps, overrides
from tests.pairwise import pairwise

Compose = Callable[..., Command]

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
    "model.dropout_kind": ["standard", "variational"],
}
TINY = ("model.d_embedding=10", "model.d_model=12", "model.dropout=0.1")


def allowed(row: Mapping[str, Any]) -> bool:
    fed, covering = row["model.attention.input_feeding"] == "true", row["model.attention.coverage"] == "true"
    return (
        not (fed and row["model.attention.order"] == "bahdanau")
        and not (covering and row["model/attention"] not in ("concat", "additive"))
        and not (row["model/attention"] == "none" and (fed or row["model.attention.reach"] != "global"))
        and not (row["model.bidirectional"] == row["model.reverse_source"] == "true")
        and not (row["model.layers"] == 1 and row["model.residual"] == "true")
    )


@pytest.mark.parametrize("row", pairwise(RNN, allowed), ids=overrides)
def test_every_two_options_of_an_rnn_together(row: Mapping[str, Any]) -> None:
    window = ["model.attention.window=2"] * (row["model.attention.reach"] != "global")
    check_gradients_and_steps(build(row, "model=rnn", *TINY, *window))


REFUSED = {
    "model.cell=elman": r"model\.cell=elman must be tanh or lstm or gru\.",
    "model.d_model=13": r"model\.d_model=13 must be even: each direction of a bidirectional encoder",
    "model.d_embedding=0": r"model\.d_embedding=0 must be an integer >= 1\.",
    "model.layers=0": r"model\.layers=0 must be an integer in \[1, 1000\]\.",
    "model.layers=1 model.residual=true": r"residual=true has no effect with model\.layers=1: choose",
    "model.reverse_source=true": r"reverse_source=true contradicts model\.bidirectional=true",
    "model.dropout=1.0": r"model\.dropout=1\.0 must be a number in \[0, 1\)\.",
    "model.dropout_kind=locked": r"model\.dropout_kind=locked must be standard or variational\.",
    "model.attention.score=bilinear": r"model\.attention\.score=bilinear must be dot or .* or none\.",
    "model.attention.reach=far": r"model\.attention\.reach=far must be global or local_m or local_p\.",
    "model.attention.order=graves": r"model\.attention\.order=graves must be luong or bahdanau\.",
    "model.attention.order=bahdanau": r"input_feeding=true contradicts model\.attention\.order=bahdanau",
    "model.attention.coverage=true": r"coverage=true is not supported by .*score=general: choose additive or concat",
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
}


@pytest.mark.parametrize("settings", REFUSED)
def test_contradictions_are_refused_in_a_sentence(compose: Compose, settings: str) -> None:
    with pytest.raises(HeedError, match=REFUSED[settings]):
        check_options(compose("model=rnn", *TINY, *settings.split()).options)
