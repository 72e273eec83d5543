"""COMET against its published formulas, computed in NumPy from the states of XLM-R for one text at a time."""

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from tokenizers import Tokenizer

from heed.errors import HeedError
from heed.evaluation import comet
from heed.evaluation.comet import Comet
from heed.evaluation.scores import SystemOutput
from tests.evaluation.comet_models import POSITIONS, TEXTS, save_comet

pytestmark = pytest.mark.slow
transformers = pytest.importorskip("transformers")

OUTPUT = SystemOutput(hypotheses=TEXTS["mt"], references=[TEXTS["ref"]], sources=TEXTS["src"])


class Formula:
    """The formulas of Rei et al. (2020, 2022), with nothing of heed."""

    def __init__(self, folder: Path) -> None:
        self.options = yaml.safe_load((folder / "hparams.yaml").read_text())
        self.weights = torch.load(folder / "checkpoints" / "model.ckpt", weights_only=True)["state_dict"]
        config = transformers.XLMRobertaConfig.from_pretrained(folder / "encoder")
        self.encoder = transformers.XLMRobertaModel(config, add_pooling_layer=False).eval()
        prefix = "encoder.model."
        own = {name.removeprefix(prefix): w for name, w in self.weights.items() if name.startswith(prefix)}
        self.encoder.load_state_dict(own)
        self.tokenizer = Tokenizer.from_file(str(folder / "encoder" / "tokenizer.json"))

    def ids(self, line: str) -> list[int]:
        ids = self.tokenizer.encode(line).ids
        longest = POSITIONS - 4
        return ids if len(ids) <= longest else [*ids[: longest - 1], 2]

    def embedding(self, ids: list[int], pool: str) -> Any:
        with torch.no_grad():
            found = self.encoder(torch.tensor([ids]), output_hidden_states=True).hidden_states
        layers = np.stack([states[0].numpy() for states in found])
        if self.options["layer"] == "mix":
            if self.options["layer_norm"]:
                layers = (layers - layers.mean((1, 2), keepdims=True)) / layers.std((1, 2), keepdims=True)
            scalars = np.array(
                [self.weight(f"layerwise_attention.scalar_parameters.{n}")[0] for n in range(len(layers))]
            )
            normed = np.exp(scalars) / np.exp(scalars).sum()
            if self.options["layer_transformation"] == "sparsemax":
                normed = project_on_simplex(scalars)
            mixed = self.weight("layerwise_attention.gamma") * np.einsum("l,lsd->sd", normed, layers)
        else:
            mixed = layers[self.options["layer"]]
        return mixed.mean(0) if pool == "avg" else mixed[0]

    def weight(self, name: str) -> Any:
        return self.weights[name].numpy()

    def estimate(self, features: Any) -> float:
        *hidden, last = (0, 3, 6)[: len(self.options["hidden_sizes"]) + 1]
        for number in hidden:
            layer = f"estimator.ff.{number}"
            features = np.tanh(self.weight(f"{layer}.weight") @ features + self.weight(f"{layer}.bias"))
        layer = f"estimator.ff.{last}"
        return float((self.weight(f"{layer}.weight") @ features + self.weight(f"{layer}.bias"))[0])

    def score(self, source: str, hypothesis: str, reference: str) -> float:
        kind = self.options["class_identifier"]
        s, h, r = (self.ids(line) for line in (source, hypothesis, reference))
        if kind == "unified_metric":
            segments = self.options["input_segments"]
            texts = {("mt", "src"): [h, s], ("mt", "ref"): [h, r]}
            views = [[h, s], [h, r], [h, s, r]] if len(segments) == 3 else [texts[tuple(segments)]]
            scores = []
            for first, *others in views:
                joined = [*first, *(token for ids in others for token in (2, *ids[1:]))][: POSITIONS - 2]
                scores.append(self.estimate(self.embedding(joined, "cls")))
            return float(np.mean(scores))
        s, h, r = (self.embedding(ids, self.options["pool"]) for ids in (s, h, r))
        if kind == "referenceless_regression_metric":
            return self.estimate(np.concatenate([h, s, h * s, abs(h - s)]))
        return self.estimate(np.concatenate([h, r, h * r, abs(h - r), h * s, abs(h - s)]))


def project_on_simplex(scores: Any) -> Any:
    """Find the threshold of sparsemax by bisection."""
    low, high = scores.min() - 1, scores.max()
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(scores - middle, 0).sum() > 1 else (low, middle)
    return np.maximum(scores - low, 0)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("regression_metric", {}),  # wmt22-comet-da
        ("regression_metric", {"layer_transformation": "softmax", "layer_norm": True}),
        ("regression_metric", {"layer": 2, "pool": "cls", "hidden_sizes": [9]}),
        ("referenceless_regression_metric", {}),
        (
            "unified_metric",
            {"input_segments": ["mt", "src"], "layer_transformation": "sparsemax_patch"},
        ),  # wmt22-cometkiwi-da
        ("unified_metric", {"input_segments": ["mt", "src", "ref"], "layer_norm": True}),
        ("unified_metric", {"input_segments": ["mt", "ref"]}),
    ],
)
def test_scores_are_those_of_the_formula(
    kind: str, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save_comet(tmp_path / "comet", kind, **options)
    formula = Formula(folder)
    rows = [*zip(TEXTS["src"], TEXTS["mt"], TEXTS["ref"], strict=True)]
    expected = np.mean([formula.score(*row) for row in rows])
    found = Comet(str(folder)).score(OUTPUT)
    assert found.value == pytest.approx(expected, abs=1e-6)
    reads_references = "ref" in options.get("input_segments", ["ref"] * (kind == "regression_metric"))
    assert f"nrefs:{int(reads_references)}|model:{folder}|transformers:" in found.signature
    monkeypatch.setattr(comet, "TOKENS_AT_ONCE", 1)
    assert Comet(str(folder)).score(OUTPUT).value == pytest.approx(expected, abs=1e-6)


def test_several_references_are_averaged(tmp_path: Path) -> None:
    metric = Comet(str(save_comet(tmp_path / "comet", "regression_metric")))
    other = list(reversed(TEXTS["ref"]))
    both, *each = (
        metric.score(SystemOutput(hypotheses=TEXTS["mt"], references=references, sources=TEXTS["src"])).value
        for references in ([TEXTS["ref"], other], [TEXTS["ref"]], [other])
    )
    assert both == pytest.approx(sum(each) / 2, abs=1e-6)
    assert each[0] != each[1]


def test_sources_and_references_are_encoded_once(tmp_path: Path) -> None:
    metric = Comet(str(save_comet(tmp_path / "comet", "regression_metric")))
    value = metric.score(OUTPUT).value
    encoded: list[int] = []
    metric.model.register_forward_pre_hook(lambda _, inputs: encoded.append(len(inputs[0])))
    assert metric.score(OUTPUT).value == value
    assert sum(encoded) == len({*TEXTS["mt"]} - {*TEXTS["src"], *TEXTS["ref"]})


class Executed:
    """Pickled, it would create a file when it is loaded."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return Path.touch, (self.file,)


def test_no_code_in_a_checkpoint_is_executed(tmp_path: Path) -> None:
    folder = save_comet(tmp_path / "comet", "regression_metric")
    file = folder / "checkpoints" / "model.ckpt"
    content = torch.load(file, weights_only=True)
    torch.save({**content, "callbacks": Executed(tmp_path / "executed")}, file)
    with pytest.raises(HeedError, match=r"model.ckpt is damaged, or no checkpoint of COMET"):
        Comet(str(folder))
    assert not (tmp_path / "executed").exists()
    torch.save(content, file)
    assert Comet(str(file)).name == str(file)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            "no encoder",
            "needs the tokenizer of encoder, which is not on this machine: fetch it with `hf download encoder",
        ),
        ("no checkpoint", "model.ckpt is damaged, or no checkpoint of COMET"),
        ("half a checkpoint", "model.ckpt is damaged, or no checkpoint of COMET"),
        ("no options", "hparams.yaml"),
        ("a weight less", "do not fit encoder: 'embeddings.LayerNorm.bias'"),
        ("xcomet_metric", "has class_identifier=xcomet_metric: heed computes regression_metric, "),
        ("another encoder", "has encoder_model=RemBERT: heed computes XLM-RoBERTa only"),
    ],
)
def test_models_that_cannot_be_read_are_reported(damage: str, message: str, tmp_path: Path) -> None:
    kind = damage if damage == "xcomet_metric" else "regression_metric"
    options = {"encoder_model": "RemBERT"} if damage == "another encoder" else {}
    folder = save_comet(tmp_path / "comet", kind, **options)
    file = folder / "checkpoints" / "model.ckpt"
    if damage == "no encoder":
        shutil.rmtree(folder / "encoder")
    elif damage == "no checkpoint":
        file.unlink()
    elif damage == "half a checkpoint":
        file.write_bytes(file.read_bytes()[:5000])
    elif damage == "no options":
        (folder / "hparams.yaml").unlink()
    elif damage == "a weight less":
        content = torch.load(file, weights_only=True)
        del content["state_dict"]["encoder.model.embeddings.LayerNorm.bias"]
        torch.save(content, file)
    with pytest.raises(HeedError) as error:
        Comet(str(folder))
    assert message in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_what_is_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        HeedError, match=r"There is no COMET model some/model on this machine: .*hf download some/model"
    ):
        Comet("some/model")
    metric = Comet(str(save_comet(tmp_path / "comet", "regression_metric")))
    with pytest.raises(HeedError, match="COMET needs the source sentences"):
        metric.score(SystemOutput(hypotheses=["a"], references=[["a"]]))
    monkeypatch.setitem(sys.modules, "transformers", None)  # as if it were not installed
    with pytest.raises(HeedError, match=r"COMET needs transformers.*\[comet\]"):
        Comet("some/model")
