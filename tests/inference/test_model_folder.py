"""Model folders: saving, loading, format numbers, and errors for damaged or foreign folders."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from heed.errors import HeedError
from heed.inference import model_folder
from heed.inference.searches import build_search
from heed.models import build_model
from heed.models.seq2seq import Seq2Seq
from tests.conftest import CONFIGS
from tests.tokenizers import train_tokenizer

LINES = ["a man rides a bike .", "the dog sleeps .", "two children play with a red ball in the park .", "größer"]
SEARCH = {"beam": 3, "length_penalty": 0.6, "n_best": 1, "max_length_factor": 1.0, "max_length_extra": 3}


@pytest.fixture
def folder(tmp_path: Path, tiny_model: Callable[..., Seq2Seq]) -> Path:
    """A model folder with a tiny transformer with random weights."""
    tokenizer = train_tokenizer(LINES, vocab_size=70)
    torch.manual_seed(3)
    model = tiny_model("transformer", src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab).float()
    model_folder.save(tmp_path / "run" / "model", model, tokenizer, extra={"search": SEARCH, "tgt_lang": "de"})
    return tmp_path / "run" / "model"


def edit_config(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    config = yaml.safe_load((folder / "config.yaml").read_text())
    change(config)
    (folder / "config.yaml").write_text(yaml.safe_dump(config))


def replace_file(folder: Path, name: str, create: Callable[[Path], object]) -> None:
    (folder / name).unlink()
    create(folder / name)


def write(folder: Path, name: str, size: int, content: bytes = b"") -> None:
    """Replace a file by the beginning of its content, or by another content."""
    (folder / name).write_bytes((content or (folder / name).read_bytes())[:size])


def set_weight(folder: Path, value: float) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["tgt_embedding.weight"][5, 3] = value
    save_file(weights, folder / "model.safetensors")
    edit_config(folder, lambda c: c.pop("weights_digest"))


def flip_bit(folder: Path) -> None:
    content = bytearray((folder / "model.safetensors").read_bytes())
    content[-1] ^= 1  # of the exponent of the last weight
    (folder / "model.safetensors").write_bytes(content)


def test_save_and_load_are_inverse(folder: Path, tmp_path: Path) -> None:
    loaded = model_folder.load(folder.parent)
    assert not loaded.model.training
    assert (loaded.config["search"], loaded.config["tgt_lang"]) == (SEARCH, "de")
    extra = {key: value for key, value in loaded.config.items() if key not in ("family", "model")}
    model_folder.save(tmp_path / "again", loaded.model, loaded.tokenizer, extra=extra)
    for name in ("model.safetensors", "config.yaml", "src.model", "tgt.model"):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()


def test_missing_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(HeedError, match=r"There is no folder .*nowhere: give a run"):
        model_folder.load(tmp_path / "nowhere")
    with pytest.raises(HeedError, match="holds no model: neither it nor its subfolder model"):
        model_folder.load(tmp_path)
    for run in ("2026-01-01", "2026-01-02"):
        (tmp_path / run / "model").mkdir(parents=True)
        (tmp_path / run / "model" / model_folder.WEIGHTS).touch()
    with pytest.raises(HeedError, match=r"is not a run but holds 2: choose one, such as .*/2026-01-02\."):
        model_folder.load(tmp_path)


BILLION_LAUGHS = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9)
)


def config(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    return lambda folder: edit_config(folder, change)


def model(**changes: Any) -> Callable[[Path], object]:
    return config(lambda c: c["model"].update(changes))


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "family list": (config(lambda c: c.update(family=["transformer"])), "the model family ['transformer'] is unknown"),
    "no model": (config(lambda c: c.pop("model")), "it has no model"),
    "model text": (config(lambda c: c.update(model="x")), "model=x must be a mapping"),
    "size text": (model(d_ff="x"), "model.d_ff=x must be an integer"),
    "wide": (model(d_ff=2**40), "sizes up to 1,099,511,627,776"),
    "wide, many heads": (model(d_model=2**40, num_heads=2**40), "sizes up to"),
    "deep": (model(encoder_layers=1000), "layers and sizes up to"),
    "too deep": (model(encoder_layers=2**40), "must be an integer in [1, 1000]"),
    "a little wider": (model(d_ff=29), "weights of another architecture"),
    "search list": (config(lambda c: c.update(search=[1])), "search=[1] must be a mapping"),
    "search text": (config(lambda c: c["search"].update(length_penalty="x")), "search.length_penalty=x"),
    "alignment text": (
        config(lambda c: c.update(alignment={"layer": "x", "head": None, "row": "input"})),
        "alignment.layer=x must be an integer",
    ),
    "another format": (config(lambda c: c.update(format=1)), "was written by another version of heed (format 1; this"),
    "no format": (config(lambda c: c.pop("format")), "is not the config of a heed model: it has no format"),
    "nested": (lambda d: (d / "config.yaml").write_text("[" * 100_000), "nested too deeply"),
    "aliases": (lambda d: (d / "config.yaml").write_text(BILLION_LAUGHS), "aliases"),
    "large": (lambda d: (d / "config.yaml").write_text("a: " + "x" * 10**6), "larger than"),
    "folder": (lambda d: replace_file(d, "model.safetensors", Path.mkdir), "is a folder and must be a file"),
    "pipe": (lambda d: replace_file(d, "model.safetensors", os.mkfifo), "is a pipe or a device and must be a file"),
    "pipe as config": (lambda d: replace_file(d, "config.yaml", os.mkfifo), "is a pipe or a device and must be a file"),
    "NaN": (lambda d: set_weight(d, float("nan")), "1 of 1,400 values of tgt_embedding.weight are NaN or infinite"),
    "flipped bit": (flip_bit, "does not have the weights_digest of config.yaml"),
    "cut weights": (lambda d: write(d, "model.safetensors", 2000), "model.safetensors is damaged or cut off"),
    "cut header": (lambda d: write(d, "model.safetensors", 5), "model.safetensors is damaged or cut off"),
    "no weights": (lambda d: write(d, "model.safetensors", 0), "model.safetensors is damaged or cut off"),
    "empty config": (lambda d: write(d, "config.yaml", 0), "config.yaml is damaged or was not written by heed"),
    "binary config": (lambda d: write(d, "config.yaml", 2, b"\xff\xfe"), "config.yaml is damaged or was not written"),
    "no size": (config(lambda c: c["model"].pop("d_model")), "model.d_model must be given"),
    "no tokenizer": (lambda d: (d / "src.model").unlink(), "holds no tokenizer"),
    "text as tokenizer": (lambda d: write(d, "src.model", 2, b"xx"), "src.model is not a SentencePiece model"),
    "no model file": (lambda d: (d / "model.safetensors").unlink(), "holds no model"),
    "infinity": (lambda d: set_weight(d, -float("inf")), "are NaN or infinite"),
}


@pytest.mark.parametrize(
    "damage", [pytest.param(name, marks=[pytest.mark.posix("named pipes")] * ("pipe" in name)) for name in DAMAGES]
)
def test_damaged_folders_are_refused_in_one_sentence(folder: Path, damage: str) -> None:
    change, message = DAMAGES[damage]
    change(folder)
    with pytest.raises(HeedError) as caught:
        build_search(model_folder.load(folder).config["search"])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


# ---- another vocabulary


@pytest.mark.parametrize("width", [(), (3,)])
def test_rows_of_new_pieces_are_means_of_the_rows_that_spell_them(width: tuple[int, ...]) -> None:
    old, fresh = torch.randn(4, *width).half(), torch.randn(5, *width)
    spellings = [[0], [2], [1, 3, 3], [], [0, 1]]
    rows = model_folder.respelled_rows(old, fresh, spellings)
    o = old.float()
    expected = torch.stack([o[0], o[2], (o[1] + 2 * o[3]) / 3, fresh[3], (o[0] + o[1]) / 2])
    torch.testing.assert_close(rows, expected)
    assert torch.equal(rows[:2], o[[0, 2]])
    assert torch.equal(rows[3], fresh[3])


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("family", ["rnn", "transformer"])
def test_the_weights_of_the_vocabulary_are_those_whose_shape_depends_on_it(
    family: str, tied: bool, joint: bool
) -> None:
    config: Any = CONFIGS[family]
    config = replace(config, tie_embeddings=tied)
    small, large = (
        build_model(config, src_vocab=size, tgt_vocab=size if joint else size + 1, joint=joint).state_dict()
        for size in (10, 12)
    )
    sides = {name: int(len(weight) == 13) for name, weight in large.items() if weight.shape != small[name].shape}
    expected = {name: side for name, side in model_folder.VOCABULARY_WEIGHTS.items() if name in large}
    assert sides == (dict.fromkeys(expected, 0) if joint else expected)
