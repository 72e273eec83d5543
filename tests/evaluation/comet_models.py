"""Small COMET models with random weights, in the layout of Unbabel's checkpoints."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import yaml
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

TEXTS = {
    "src": ["a man rides a bike .", "the dog sleeps .", "two children play with a red ball in the park .", "x", ""],
    "mt": ["Ein Mann fährt Rad.", "Ein Hund schläft!", "Zwei kinder spielen mit einem Ball im park.", "", "ja"],
    "ref": ["Ein Mann fährt Fahrrad.", "Der Hund schläft.", "Zwei Kinder spielen mit einem Ball.", "y", "nein " * 40],
}
WIDTH, LAYERS, POSITIONS = 16, 3, 40
"""POSITIONS is so small that the longest texts are truncated."""
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def save_comet(folder: Path, kind: str, *, seed: int = 1, **options: Any) -> Path:
    """Write a model to a folder, with its encoder in ``folder/encoder``, and return the folder."""
    options = {
        "class_identifier": kind, "encoder_model": "XLM-RoBERTa", "pretrained_model": "encoder", "pool": "avg",
        "layer": "mix", "sent_layer": "mix", "layer_norm": False, "layer_transformation": "sparsemax",
        "hidden_sizes": [12, 8], "activations": "Tanh", "final_activation": None, **options,
    }  # fmt: skip
    vocabulary = _save_encoder(folder / "encoder")
    features = {"regression_metric": 6, "referenceless_regression_metric": 4, "unified_metric": 1}.get(kind, 6)
    shapes = {**_encoder_shapes(vocabulary), "layerwise_attention.gamma": (1,)}
    shapes |= {f"layerwise_attention.scalar_parameters.{layer}": (1,) for layer in range(LAYERS + 1)}
    sizes = [features * WIDTH, *options["hidden_sizes"], 1]
    for number, (width, size) in enumerate(pairwise(sizes)):
        shapes |= {f"estimator.ff.{3 * number}.weight": (size, width), f"estimator.ff.{3 * number}.bias": (size,)}
    generator = torch.Generator().manual_seed(seed)
    weights = {name: 0.4 * torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    (folder / "checkpoints").mkdir()
    content = {"state_dict": weights, "hyper_parameters": {"dropout": 0.1}, "epoch": 3, "optimizer_states": []}
    torch.save(content, folder / "checkpoints" / "model.ckpt")
    (folder / "hparams.yaml").write_text(yaml.safe_dump(options), encoding="utf-8")
    return folder


def _encoder_shapes(vocabulary: int) -> dict[str, tuple[int, ...]]:
    """Return the names in a checkpoint of the weights of XLM-R."""
    norm = {"LayerNorm.weight": (WIDTH,), "LayerNorm.bias": (WIDTH,)}

    def linear(name: str, rows: int, columns: int) -> dict[str, tuple[int, ...]]:
        return {f"{name}.weight": (rows, columns), f"{name}.bias": (rows,)}

    layer = {
        **linear("attention.self.query", WIDTH, WIDTH),
        **linear("attention.self.key", WIDTH, WIDTH),
        **linear("attention.self.value", WIDTH, WIDTH),
        **linear("attention.output.dense", WIDTH, WIDTH),
        **{f"attention.output.{name}": shape for name, shape in norm.items()},
        **linear("intermediate.dense", 24, WIDTH),
        **linear("output.dense", WIDTH, 24),
        **{f"output.{name}": shape for name, shape in norm.items()},
    }
    embeddings: dict[str, tuple[int, ...]] = {
        "word_embeddings.weight": (vocabulary, WIDTH),
        "position_embeddings.weight": (POSITIONS, WIDTH),
        "token_type_embeddings.weight": (1, WIDTH),
        **norm,
    }
    names = {f"embeddings.{name}": shape for name, shape in embeddings.items()}
    names |= {f"encoder.layer.{n}.{name}": shape for n in range(LAYERS) for name, shape in layer.items()}
    return {f"encoder.model.{name}": shape for name, shape in names.items()}


def _save_encoder(folder: Path) -> int:
    """Write the tokenizer and the configuration of XLM-R, and return the size of the vocabulary."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=120, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator([line for lines in TEXTS.values() for line in lines], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    folder.mkdir(parents=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    special = {"bos": "<s>", "cls": "<s>", "eos": "</s>", "sep": "</s>", "pad": "<pad>", "unk": "<unk>"}
    tokens = {f"{name}_token": token for name, token in special.items()}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **tokens}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    shape = {
        "model_type": "xlm-roberta", "vocab_size": tokenizer.get_vocab_size(), "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS, "num_attention_heads": 2, "intermediate_size": 24, "pad_token_id": 1,
        "max_position_embeddings": POSITIONS, "type_vocab_size": 1, "layer_norm_eps": 1e-5,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(shape), encoding="utf-8")
    return int(tokenizer.get_vocab_size())
