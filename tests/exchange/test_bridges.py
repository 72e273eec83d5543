"""Interpretability tools agree with heed about an exported model, and the export has the parts that they look for."""

from importlib.util import find_spec
from pathlib import Path

import bridges
import pytest
import torch
from torch.testing import assert_close
from transformers import AutoModelForSeq2SeqLM

from heed.cli import main
from tests.exchange.models import transformer, write_run

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # the tools' own warnings
SENTENCES = ["the cat saw the dog", "the dog saw the cat"]


@pytest.fixture(scope="module", params=["pre", "post"])
def example(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> bridges.Example:
    """Two sentences of a tiny model, exported as Pegasus and as Marian."""
    # TransformerLens needs as many layers in the decoder as in the encoder.
    config = transformer(norm=request.param, encoder_layers=1, decoder_layers=1)
    run = write_run(tmp_path_factory.mktemp("bridges") / "run", config)
    assert main(["export", str(run), "--to", "huggingface"]) == 0
    return bridges.open_example(str(run), str(run / "export" / "huggingface"), SENTENCES)


def test_the_export_has_heeds_maps_and_the_names_of_bart(example: bridges.Example) -> None:
    """TransformerLens and inseq find modules by these names; nnsight needs the maps."""
    model = AutoModelForSeq2SeqLM.from_pretrained(example.folder, attn_implementation="eager")
    out = model(input_ids=example.src[0], decoder_input_ids=example.tgt, output_attentions=True)
    assert_close(out.logits[0], example.logits(example.src[0]), atol=1e-4, rtol=0)
    pair = example.pairs[0]
    for name, maps in {
        "encoder_attentions": pair.encoder_self,
        "decoder_attentions": pair.decoder_self,
        "cross_attentions": pair.cross,
    }.items():
        assert_close(torch.cat(out[name]), torch.tensor(maps), atol=1e-5, rtol=0)
    layers = {"encoder": ["self_attn"], "decoder": ["self_attn", "encoder_attn"]}
    for side, attentions in layers.items():
        parts = [f"{each}.{part}" for each in attentions for part in ("q_proj", "k_proj", "v_proj", "out_proj")]
        norms = [f"{each}_layer_norm" for each in (*attentions, "final")]
        for part in (*parts, *norms, "fc1", "fc2"):
            assert model.get_submodule(f"model.{side}.layers.0.{part}").weight.numel()
        assert model.get_submodule(f"model.{side}").embed_scale == pytest.approx(24**0.5)


@pytest.mark.parametrize("name", bridges.TOOLS)
def test_a_tool_agrees_with_heed(
    example: bridges.Example, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not find_spec(name):
        pytest.skip(f"{name} is not installed; docs/attention.md says how")
    bridges.run_tool(name, example, tmp_path)
    assert "agrees with heed" in capsys.readouterr().out
    (figure,) = tmp_path.iterdir()
    assert figure.stem == f"bridges-{name}"
