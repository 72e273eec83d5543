"""Exports to Hugging Face transformers load offline and translate as heed does."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import heed
from heed.decoding import GreedySearch
from heed.exchange.to_huggingface import HuggingFaceEngine
from heed.symbols import EOS, UNK
from tests.exchange.models import LINES, UNSCALED, transformer, write_run

pytestmark = pytest.mark.slow

Heed = Callable[..., tuple[int, str, str]]

VARIANTS: dict[str, tuple[dict[str, Any], bool]] = {
    "pre-norm (Pegasus)": ({}, True),
    "pre-norm, GELU, unscaled": ({"activation": "gelu", "self_attention": UNSCALED}, True),
    "post-norm (Marian)": ({"norm": "post"}, True),
    "post-norm, SiLU, output bias": ({"norm": "post", "activation": "silu", "output_bias": True}, True),
    "post-norm, two tokenizers": ({"norm": "post"}, False),
    "post-norm, untied": ({"norm": "post", "tie_embeddings": False}, True),
}


@pytest.mark.parametrize(("changes", "joint"), VARIANTS.values(), ids=VARIANTS)
def test_greedy_translations_are_those_of_heed(
    heed_cli: Heed, tmp_path: Path, changes: dict[str, Any], joint: bool
) -> None:
    run = write_run(tmp_path / "run", transformer(**changes), joint=joint)
    status, out, err = heed_cli("export", run, "--to", "huggingface")
    assert status == 0, err
    assert "5 of 5 greedy translations are equal" in out

    engine = HuggingFaceEngine(run / "export" / "huggingface")
    batch = engine.tokenizer(LINES, return_tensors="pt", padding=True)
    with torch.inference_mode():
        ids = engine.target.generate(**batch, num_beams=1, max_new_tokens=12)
    texts = engine.tokenizer.batch_decode(ids, skip_special_tokens=True)
    model = heed.load(run)
    search = GreedySearch(max_length_factor=0.0, max_length_extra=12)
    greedy = model.translate_ids(model.tokenizer.encode_src(LINES), search=search)
    # transformers drops unknown pieces from its texts.
    ours = [[token for token in hypotheses[0].tokens if token != UNK] for hypotheses in greedy]
    assert [" ".join(text.split()) for text in texts] == [
        " ".join(text.split()) for text in model.tokenizer.decode_tgt(ours)
    ]


def test_characters_are_those_of_heed_and_words_are_refused(heed_cli: Heed, tmp_path: Path) -> None:
    for kind in ("char", "word"):
        pieces = {"model_type": kind, "hard_vocab_limit": False}
        write_run(tmp_path / kind, transformer(), lines=[*LINES, "ein Bär"], **pieces)
    status, out, err = heed_cli("export", tmp_path / "char", "--to", "huggingface")
    assert status == 0, err
    assert "6 of 6 greedy translations are equal" in out
    for to, reason in {"huggingface": "unites adjacent unknown words", "page": "cannot split text into words"}.items():
        status, out, err = heed_cli("export", tmp_path / "word", "--to", to)
        assert (status, out) == (2, "")
        assert reason in err
    assert not list((tmp_path / "word" / "export").glob("*"))


def test_special_pieces_in_a_text_are_text(heed_cli: Heed, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", transformer())
    assert heed_cli("export", run, "--to", "huggingface")[0] == 0
    engine = HuggingFaceEngine(run / "export" / "huggingface")
    text = "the </s> dog <pad> <unk>"
    assert engine.tokenizer(text)["input_ids"] == [*heed.load(run).tokenizer.encode_src([text])[0], EOS]


def test_the_folder_has_a_model_card_and_a_generation_config(heed_cli: Heed, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", transformer(norm="post"))
    assert heed_cli("export", run, "--to", "huggingface")[0] == 0
    folder = run / "export" / "huggingface"
    card = (folder / "README.md").read_text()
    assert 'language: ["en", "de"]' in card
    assert "check on the validation set: 5 of 5 greedy" in card
    assert str(tmp_path) not in card  # it is published
    assert HuggingFaceEngine(folder).target.generation_config.num_beams == 5
    assert len({path.stat().st_mode for path in folder.iterdir()}) == 1, "by the umask, also the weights"
