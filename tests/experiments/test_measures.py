"""What claims are measured with, against answers that are known."""

import json
import math
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from experiments import CLAIMS, order
from experiments.alignment import diagonal
from experiments.antecedent import written
from experiments.cost import LENGTHS, exponent, saved_bytes
from experiments.heads import divergence
from experiments.laboratory import Laboratory, Recipe, Trained, spread
from experiments.plots import BOTTOM, HEIGHT, Line, _apart, histogram, line_plot
from experiments.scaling import jacobian_norm, softmax_of_scores
from experiments.senses import deciding_words
from experiments.vanishing import factor, gradients
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from heed.data.synthetic import ContrastivePair, split_punctuation
from heed.errors import HeedError
from heed.models import build_model
from heed.models.rnn_config import AttentionConfig, RNNConfig


def test_the_twelve() -> None:
    assert len({claim.name for claim in CLAIMS}) == 12
    recipes = {recipe.name: recipe for claim in CLAIMS for recipe in claim.recipes}
    assert all(recipe == recipes[recipe.name] for claim in CLAIMS for recipe in claim.recipes)


def test_jacobian_norm_is_that_of_autograd() -> None:
    scores = torch.randn(5, 7, dtype=torch.float64)
    expected = [
        torch.autograd.functional.jacobian(lambda s: s.softmax(0), row).norm()  # type: ignore[no-untyped-call]
        for row in scores
    ]
    torch.testing.assert_close(jacobian_norm(scores.softmax(1)), torch.stack(expected))


def test_a_softmax_at_99_per_cent_has_the_gradient_of_the_notes() -> None:
    """∂p/∂s = p (1 − p) = 0.0099 on the diagonal; two keys give it four times."""
    assert jacobian_norm(torch.tensor([[0.99, 0.01]], dtype=torch.float64)).item() == pytest.approx(2 * 0.0099)


def test_scores_have_the_variance_of_their_width() -> None:
    assert softmax_of_scores(256, scaled=False)["variance"] == pytest.approx(256, rel=0.1)
    assert softmax_of_scores(256, scaled=True)["variance"] == pytest.approx(1, rel=0.1)
    assert softmax_of_scores(256, scaled=True)["entropy"] < math.log(32)


def test_heads_that_never_meet_differ_by_one_bit_and_equal_ones_by_none() -> None:
    maps = np.zeros((2, 3, 4, 6))
    maps[0, [0, 1, 2], :, [0, 1, 2]] = 1
    maps[1, :] = 1 / 6
    assert divergence(maps).tolist() == pytest.approx([1, 0])


def test_a_line_along_the_diagonal() -> None:
    assert diagonal(3, 3).tolist() == np.eye(3, dtype=bool).tolist()
    assert diagonal(2, 4).argmax(1).tolist() == [0, 0, 1, 1]


def test_exponents_of_powers() -> None:
    assert exponent([7.0 * n**1.7 for n in LENGTHS]) == pytest.approx(1.7)


def test_saved_bytes_are_what_a_linear_layer_needs() -> None:
    layer, x = nn.Linear(30, 40, bias=False), torch.randn(50, 30, requires_grad=True)

    def make() -> Tensor:
        out: Tensor = layer(x)
        return out

    assert saved_bytes(make) == 4 * (50 * 30 + 30 * 40)


def test_gradients_of_a_recurrence_that_is_known() -> None:
    """An RNN with W = r I and small inputs multiplies the gradient by nearly r a step."""
    attention = AttentionConfig(
        score="none", reach="global", window=None, order="luong", input_feeding=False, coverage=False, max_source=None
    )
    config = RNNConfig(
        cell="tanh", d_embedding=4, d_model=4, layers=1, residual=False, bidirectional=False, dropout=0.0,
        dropout_kind="standard", tie_embeddings=False, attention=attention,
    )  # fmt: skip
    torch.manual_seed(0)
    model = build_model(config, src_vocab=9, tgt_vocab=9, joint=False)
    with torch.no_grad():
        for parameter in model.get_submodule("encoder").parameters():
            parameter.mul_(1e-3)
        hidden = dict(model.get_submodule("encoder").named_parameters())
        (name,) = [name for name in hidden if "hh" in name and hidden[name].dim() == 2]
        hidden[name].copy_(0.8 * torch.eye(4))
    norms = gradients(model, [[4, 5, 6, 7, 8, 4, 5]], [5])
    assert factor(norms) == pytest.approx(0.8, rel=0.02)


@pytest.mark.parametrize("kind", ["sinusoidal", "learned", "rotary", "alibi", "relative"])
def test_desiderata_are_those_of_the_formulas(kind: str) -> None:
    found = order.desiderata(kind)
    assert found["deterministic"]
    assert found["equal distances"] == (kind != "learned")
    assert found["bounded"] == (kind != "alibi")
    assert found["unique"]


def test_spread_and_figures() -> None:
    assert spread([1.0, 3.0]) == {"mean": 2.0, "sd": pytest.approx(math.sqrt(2)), "values": [1.0, 3.0]}
    assert spread([1.0])["sd"] is None
    plot = line_plot([Line("a & b", [(1, 10), (10, 1000)])], name="n", x="x", y="y", log_x=True, log_y=True)
    assert "a &amp; b" in plot
    numbers = [float(number) for path in re.findall(r'd="([^"]*)"', plot) for number in re.findall(r"[\d.]+", path)]
    assert all(0 <= number <= 812 for number in numbers)
    assert histogram([0.5, 0.5, -0.2], name="n", x="x").count("<rect") == 40


def test_a_laboratory_keeps_what_it_has_trained(tmp_path: Path) -> None:
    said: list[str] = []
    train = tmp_path / "train.py"
    train.write_text(
        "import json, pathlib, sys\n"
        "options = dict(argument.split('=', 1) for argument in sys.argv[1:])\n"
        "folder = pathlib.Path(options['hydra.run.dir']); folder.mkdir(parents=True)\n"
        "if 'fail' in options: sys.exit('the dog ate it')\n"
        "score = {'bleu': float(options['score'])}\n"
        "results = {'tests': {'test': score}, 'valid': score, 'train_seconds': 1.0}\n"
        "(folder / 'results.json').write_text(json.dumps(results))\n"
        "open('log', 'a').write('trained ')\n"
    )
    train.write_text(train.read_text().replace("'log'", repr(str(tmp_path / "log"))))
    laboratory = Laboratory(train=train, folder=tmp_path / "runs", common=["a=1"], at_once=2, say=said.append)
    recipes = [Recipe("one", ("score=7",), seeds=2), Recipe("two", ("score=8",), seeds=1)]
    laboratory.prepare(recipes)
    laboratory.prepare([*recipes, recipes[0]])
    assert (tmp_path / "log").read_text() == 3 * "trained "
    assert [run.bleu("test") for run in laboratory.runs(recipes[0])] == [7.0, 7.0]
    # Another setting is another model.
    laboratory.prepare([Recipe("one", ("score=9",), seeds=2)])
    assert (tmp_path / "log").read_text() == 5 * "trained "
    with pytest.raises(HeedError, match="the dog ate it"):
        laboratory.prepare([Recipe("bad", ("fail=1",), seeds=1)])


def test_what_a_run_says(tmp_path: Path) -> None:
    (tmp_path / "translations").mkdir()
    (tmp_path / "translations" / "test.src").write_text("a\u2028b\nc\n")
    (tmp_path / "metrics.csv").write_text("step,loss,valid_bleu\n1,2.5,\n2,2.0,10\n")
    (tmp_path / "results.json").write_text(json.dumps({"valid": {"bleu": 1.5}, "tests": {"long": {"bleu": 2.5}}}))
    run = Trained("name", 1, tmp_path)
    assert run.lines("test", "src") == ["a\u2028b", "c"]
    assert run.curve("loss") == [(1, 2.5), (2, 2.0)]
    assert run.curve("valid_bleu") == [(2, 10)]
    assert (run.bleu("valid"), run.bleu("long")) == (1.5, 2.5)


def test_deciding_words_are_those_in_which_twins_differ() -> None:
    one, twin = (
        ContrastivePair(src=src, good="", bad="", tag="sense", antecedent=None, roles={})
        for src in ("He saw a bank in the old town.", "He saw a bank beside the river.")
    )
    assert [split_punctuation(one.src)[place] for place in deciding_words(one, twin)] == ["in", "old", "town"]
    assert [split_punctuation(twin.src)[place] for place in deciding_words(twin, one)] == ["beside", "river"]


def test_written_pronoun_is_the_last() -> None:
    tokens = split_punctuation("Es stimmt, dass die Kuh müde war, weil sie zu faul war.")
    assert tokens[written(tokens)] == "sie"


@given(st.lists(st.floats(-50, 400), min_size=1, max_size=8))
def test_names_of_lines_keep_apart(places: list[float]) -> None:
    moved = sorted(_apart(places, 15))
    assert all(below - above >= 14.8 for above, below in pairwise(moved))
    assert moved[-1] <= HEIGHT - BOTTOM
