"""``heed import``: a model in Hugging Face's format, such as those of OPUS-MT, becomes a model folder of heed.

It reads ``MarianMTModel`` and what ``heed export --to huggingface`` writes: ``config.json``, ``model.safetensors`` or
``pytorch_model.bin``, ``source.spm``, ``target.spm``, ``vocab.json`` and, with a vocabulary for each side,
``target_vocab.json``.
"""

import json
import pickle
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import torch
import yaml
from google.protobuf.message import DecodeError
from safetensors import SafetensorError
from safetensors.torch import load_file
from sentencepiece.sentencepiece_model_pb2 import ModelProto
from torch import Tensor

from heed import __version__
from heed.cache import build_once, cache_key, file_digest
from heed.data.pairs.tokenizer import VOCABULARY_END, Tokenizer
from heed.data.pairs.vocabulary import CONTROL
from heed.errors import HeedError
from heed.exchange import huggingface
from heed.exchange.to_huggingface import HuggingFaceEngine, source_tag
from heed.files import check_regular, replacing
from heed.inference import model_folder
from heed.inference.engine import pad
from heed.languages import LANGUAGE_TAG, language_tag
from heed.layers.positions import SinusoidalPositions
from heed.models.transformer import Transformer
from heed.models.transformer_config import TransformerConfig
from heed.options import find_wrong_values
from heed.progress import print_line
from heed.symbols import BOS, EOS, PAD, SPECIAL_PIECES, UNK_PIECE

NEVER = -1e4
"""The bias of PAD and BOS where both are Marian's PAD. No logit comes near it, so that their probability is 0. With a
lower one, label smoothing, which gives every token ε / V, would add thousands of nats to the loss of a fine-tuning."""

UNKNOWN_PIECE, UNUSED = 2, 5
"""SentencePiece's types of UNK, and of pieces that have an id, but that no text is split into."""

OUR_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "silu", "silu": "silu"}
"""heed's activation for each of theirs."""

NORM_ORDERS = {"marian": "post", "pegasus": "pre"}
"""The order of the norms in each type of model."""

WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")
DOWNLOADED = ("*config.json", "*vocab.json", "*.spm", "README.md")

CHECKED_TEXTS = 32
LOGIT_TOLERANCE = 1e-3
"""Largest difference of a logit, relative to the largest logit if that is above 1."""


class TheirVocabulary(NamedTuple):
    """A vocabulary of theirs in heed's order: PAD, UNK, BOS, EOS, then all others as before."""

    pieces: list[str]
    tags: frozenset[str]
    """Those of the pieces that are language tags."""
    ids: list[int]
    """Their id of each piece. BOS is what their decoder starts with, which is PAD in Marian."""


@dataclass(frozen=True)
class Imported:
    """A model that was imported."""

    folder: Path
    model: Transformer
    difference: float | None
    """The largest difference of a logit from transformers'; None without a check."""


def import_model(source: str | Path, out: str | Path, *, check: bool = True) -> Imported:
    """Write a model folder for a model in Hugging Face's format.

    Args:
        source: its folder, or its name on the hub, ``ORG/NAME``, which is downloaded.
        out: the new folder.
        check: compare token ids and logits with those of transformers, if it is installed.

    Raises:
        HeedError: if a file is missing or damaged, if heed cannot compute the model (with all reasons), or if the
            results differ from those of transformers.
    """
    folder, out = _find(source), Path(out)
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise HeedError(f"{out} already exists: name a new folder.")
    settings = _read_settings(folder / "config.json")
    weights = _read_weights(folder, settings)
    sides = _read_vocabularies(folder, settings, weights)
    tokenizer = Tokenizer(_segmentation_models(folder, sides))
    model = _build(folder, settings, weights, tokenizer, sides)
    name = folder.resolve().name if folder == Path(source) else str(source)
    content = {"base_model": {"name": name, "license": _license(folder)}, **_languages(folder, tokenizer)}
    with replacing(out.absolute(), durable=True) as partial:
        model_folder.save(partial, model, tokenizer, extra=content)
        difference = _check(folder, model, tokenizer, sides) if check else None
    return Imported(out, model, difference)


def import_once(folder: Path, cache_dir: str | Path) -> Path:
    """Return the model folder of a model in Hugging Face's format. At the first time, import it."""
    read = {file for pattern in (*DOWNLOADED, *WEIGHT_FILES) for file in folder.glob(pattern)}
    files = [(file.name, file_digest(file)) for file in sorted(read) if file.is_file()]
    key = cache_key("import", __version__, *files)

    def write(partial: Path) -> None:
        print_line(f"Importing {folder}, once.")
        import_model(folder, partial / "model")

    return build_once(Path(cache_dir) / "imports" / key, write, limit=None) / "model"


# ---- files


def _find(source: str | Path) -> Path:
    """Return the folder of a model, downloaded if ``source`` is its name on the hub."""
    path = Path(source)
    if path.is_dir():
        return path
    if path.exists() or not re.fullmatch(r"[\w.-]+/[\w.-]+", str(source)):
        raise HeedError(f"{source} is not a folder: give the folder of a model, or its name on the hub, ORG/NAME.")
    import huggingface_hub

    try:
        available = huggingface_hub.list_repo_files(str(source))
        weights = next((name for name in WEIGHT_FILES if name in available), WEIGHT_FILES[0])
        return Path(huggingface_hub.snapshot_download(str(source), allow_patterns=[*DOWNLOADED, weights]))
    except Exception as error:  # its client raises exceptions of several packages
        reason = " ".join(str(error).split())[:200]
        raise HeedError(f"{source} is not a folder, and the hub does not give it: {reason}") from error


def _read_json(path: Path) -> dict[str, Any]:
    check_regular(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise HeedError(f"{path} is damaged, or it is not what transformers writes there: copy it again.")
    return content


def _read_settings(path: Path) -> dict[str, Any]:
    """Return the settings of a model, with the defaults of transformers; name all that heed cannot hold."""
    settings = {
        **dict.fromkeys(("dropout", "attention_dropout", "activation_dropout"), 0.0),
        "scale_embedding": False,
        "tie_word_embeddings": True,
        "share_encoder_decoder_embeddings": True,
        **_read_json(path),
    }
    if (kind := settings.get("model_type")) not in NORM_ORDERS:
        raise HeedError(f"{path} describes a model of type {kind}: heed imports {' and '.join(NORM_ORDERS)}.")
    numbers = (*huggingface.SETTINGS, "pad_token_id", "eos_token_id", "decoder_start_token_id")
    types: dict[str, Any] = {name: float if name.endswith("dropout") else int for name in numbers}
    types |= {"activation_function": str, "tie_word_embeddings": bool, "share_encoder_decoder_embeddings": bool}
    problems = [f"{name} is missing." for name in types if name not in settings]
    problems += find_wrong_values(types, settings, where="")
    activation = settings.get("activation_function")
    sizes = [
        [settings.get(f"{side}_{name}") for side in ("encoder", "decoder")] for name in ("attention_heads", "ffn_dim")
    ]
    lacks = {
        "scale_embedding=false": not settings["scale_embedding"],
        f"activation_function={activation}": activation not in OUR_ACTIVATIONS,
        "attention_heads that differ between encoder and decoder": len({*sizes[0]}) > 1,
        "ffn_dim that differs between encoder and decoder": len({*sizes[1]}) > 1,
    }
    problems += [f"heed has no {name}." for name, is_so in lacks.items() if is_so]
    if problems:
        raise HeedError(f"{path} cannot be imported: {' '.join(problems)}")
    return settings


def _read_weights(folder: Path, settings: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return the weights in fp32, each tied one under all of its names."""
    path = _weights_file(folder)
    try:
        if path.suffix == ".bin":
            found: Any = torch.load(path, map_location="cpu", weights_only=True)
        else:
            found = load_file(path)
    except (SafetensorError, pickle.UnpicklingError, RuntimeError, EOFError, OSError, ValueError, KeyError) as error:
        raise HeedError(f"{path} is damaged, cut off, or holds more than weights: copy it again.") from error
    if not isinstance(found, dict) or not all(isinstance(weight, Tensor) for weight in found.values()):
        raise HeedError(f"{path} holds more than weights: copy it again.")
    weights = {str(name): weight.float() for name, weight in found.items()}
    model_folder.check_finite(weights, path)
    encoder, decoder, output = huggingface.EMBEDDINGS
    tied = [decoder]
    tied += [encoder] if settings["share_encoder_decoder_embeddings"] else []
    tied += [output] if settings["tie_word_embeddings"] else []
    names = (huggingface.SHARED, *tied) if encoder in tied else tied
    shared = next((weights[name] for name in names if name in weights), None)
    return weights if shared is None else {**dict.fromkeys(tied, shared), **weights}


def _weights_file(folder: Path) -> Path:
    path = next((folder / name for name in WEIGHT_FILES if (folder / name).exists()), None)
    if path is None:
        raise HeedError(f"{folder} has no weights: neither {' nor '.join(WEIGHT_FILES)}.")
    check_regular(path)
    return path


# ---- vocabularies


def _read_vocabularies(
    folder: Path, settings: Mapping[str, Any], weights: Mapping[str, Tensor]
) -> tuple[TheirVocabulary, TheirVocabulary]:
    """Return the vocabularies of source and target, which may be the same."""
    source, target = folder / "vocab.json", folder / "target_vocab.json"
    if settings["share_encoder_decoder_embeddings"] or not target.exists():
        target = source
    sizes = [weights.get(name, torch.empty(0)).shape[:1].numel() for name in huggingface.EMBEDDINGS[:2]]
    return _read_vocabulary(source, settings, sizes[0]), _read_vocabulary(target, settings, sizes[1])


def _read_vocabulary(path: Path, settings: Mapping[str, Any], size: int) -> TheirVocabulary:
    entries = _read_json(path)
    names = {number: piece for piece, number in entries.items() if type(number) is int and 0 <= number < size}
    special = [settings["pad_token_id"], entries.get(UNK_PIECE), settings["decoder_start_token_id"]]
    special.append(settings["eos_token_id"])
    if len(names) < len(entries) or not all(type(number) is int and 0 <= number < size for number in special):
        raise HeedError(
            f"{path} does not belong to the model, which has {size:,} embeddings: each piece and each special token "
            "needs an id of its own below that."
        )
    others = [number for number in range(size) if number not in special]
    tags = {number: language_tag(piece[2:-2]) for number, piece in names.items() if re.fullmatch(">>.+<<", piece)}
    known = {*SPECIAL_PIECES, VOCABULARY_END, *tags.values()}
    free = {number: piece for number, piece in names.items() if piece not in known} | tags
    pieces = [free.get(number, f"<unnamed {number}>") for number in others]
    return TheirVocabulary([*SPECIAL_PIECES, *pieces], frozenset(tags.values()), [*special, *others])


def _segmentation_models(folder: Path, sides: Sequence[TheirVocabulary]) -> list[bytes]:
    """Return SentencePiece models whose ids are heed's: one if both sides have the same, otherwise two."""
    models = []
    for name, side in zip(("source.spm", "target.spm"), sides, strict=True):
        check_regular(folder / name)
        model = ModelProto()
        try:
            model.ParseFromString((folder / name).read_bytes())
        except DecodeError:
            model.Clear()
        if not model.pieces:
            raise HeedError(f"{folder / name} is not a SentencePiece model, or it is damaged: copy it again.")
        if [piece.piece for piece in model.pieces] != side.pieces:
            _renumber(model, side)
        models.append(model.SerializeToString(deterministic=True))
    return models[:1] if models[0] == models[1] else models


def _renumber(model: ModelProto, side: TheirVocabulary) -> None:
    """Give a SentencePiece model the pieces of a vocabulary, in its order, without another segmentation of any text.

    A piece that the model lacks is of type `UNUSED`. In BPE such a piece is merged, then divided again, so its score is
    lower than all others. Pieces that the vocabulary lacks follow `VOCABULARY_END`.
    """
    own = {piece.piece: piece for piece in model.pieces if piece.type not in (CONTROL, UNKNOWN_PIECE)}
    lowest = min(piece.score for piece in model.pieces)
    new = ModelProto()
    for number, piece in enumerate(side.pieces):
        if piece in SPECIAL_PIECES or piece in side.tags:
            new.pieces.add(piece=piece, score=0.0, type=UNKNOWN_PIECE if piece == UNK_PIECE else CONTROL)
        elif piece in own:
            new.pieces.append(own.pop(piece))
        else:
            new.pieces.add(piece=piece, score=lowest - 1 - number, type=UNUSED)
    new.pieces.add(piece=VOCABULARY_END, score=0.0, type=CONTROL)
    new.pieces.extend(own.values())
    del model.pieces[:]
    model.pieces.extend(new.pieces)
    spec = model.trainer_spec
    spec.pad_id, spec.unk_id, spec.bos_id, spec.eos_id = range(len(SPECIAL_PIECES))
    spec.pad_piece, spec.unk_piece, spec.bos_piece, spec.eos_piece = SPECIAL_PIECES


def _languages(folder: Path, tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the languages of a model, as far as its folder and its tags tell them."""
    path = folder / "tokenizer_config.json"
    settings = _read_json(path) if path.exists() else {}
    src, tgt = (str(settings.get(name) or "") for name in ("source_lang", "target_lang"))
    directions = [[src, tag.removeprefix(LANGUAGE_TAG).removesuffix(">")] for tag in tokenizer.tags]
    if directions:
        directions.sort(key=lambda direction: direction[1] != tgt)
        return {"src_lang": src, "tgt_lang": directions[0][1], "directions": directions}
    return {"src_lang": src, "tgt_lang": tgt}


def _license(folder: Path) -> str | None:
    """Return the licence that the front matter of a model card names."""
    card = folder / "README.md"
    _, _, text = (card.read_text(encoding="utf-8", errors="replace") if card.is_file() else "").partition("---\n")
    try:
        matter = yaml.safe_load(text.partition("\n---")[0])
    except (yaml.YAMLError, RecursionError):
        return None
    found = matter.get("license") if isinstance(matter, dict) else None
    return found if isinstance(found, str) else None


# ---- the model


def _build(
    folder: Path,
    settings: Mapping[str, Any],
    weights: Mapping[str, Tensor],
    tokenizer: Tokenizer,
    sides: Sequence[TheirVocabulary],
) -> Transformer:
    """Return the model with the weights of theirs, its rows in heed's order."""
    path = _weights_file(folder)
    starts_with_pad = settings["decoder_start_token_id"] == settings["pad_token_id"]
    rows = dict(zip(huggingface.EMBEDDINGS, (sides[0].ids, sides[1].ids, sides[1].ids), strict=True))
    weights = dict(weights)
    bias = weights.pop(huggingface.BIAS, torch.zeros(1, max(sides[1].ids) + 1)).flatten()
    try:
        bias = bias[sides[1].ids]
        weights |= {name: weights[name][ids] for name, ids in rows.items() if name in weights}
    except IndexError as error:
        raise HeedError(f"{path} has an output layer that is smaller than the vocabulary: copy it again.") from error
    has_bias = starts_with_pad or bool(bias.any())
    # heed ties the output to both embeddings of a joint vocabulary, or to that of the target. Otherwise it has a copy.
    source, target, output = (weights.get(name, torch.empty(0)) for name in huggingface.EMBEDDINGS)
    is_tied = torch.equal(output, target) and (torch.equal(source, target) or not tokenizer.joint)
    is_tied &= settings["tie_word_embeddings"]
    config = _architecture(settings, folder / "config.json", tied=is_tied, bias=has_bias)
    empty = model_folder.build_empty(config, tokenizer, weights, folder / "config.json")
    ignored = (huggingface.SHARED, *huggingface.SINUSOIDS)
    weights = {name: weight for name, weight in weights.items() if name not in ignored}
    model_folder.check_architecture(weights, huggingface.to_theirs(empty.state_dict(), config), path)
    converted = huggingface.from_theirs(weights, config)
    if config.output_bias:
        converted["output_bias"] = bias
        if starts_with_pad:
            converted["output_bias"][[PAD, BOS]] = NEVER
    model = Transformer(config, **tokenizer.vocabulary)
    model.load_state_dict(converted)
    return model.eval()


def _architecture(settings: Mapping[str, Any], path: Path, *, tied: bool, bias: bool) -> TransformerConfig:
    values = {ours: settings[theirs] for theirs, ours in huggingface.SETTINGS.items()}
    values |= {"tie_embeddings": tied, "output_bias": bias, "activation": OUR_ACTIVATIONS[values["activation"]]}
    values |= {
        "norm": NORM_ORDERS[settings["model_type"]],
        "norm_kind": "layer",
        "residual": True,
        "layer_dropout": 0.0,
    }
    values["self_attention"] = {"kind": "qkv", "score": "scaled_dot"}
    values["cross_attention"] = {"score": "scaled_dot"}
    values["positions"] = {"kind": "sinusoidal", "merge": "add", "max_length": None}
    try:
        config = TransformerConfig.from_plain(values)
    except HeedError as error:
        raise HeedError(f"{path} cannot be imported: {error}") from error
    assert isinstance(config, TransformerConfig)
    return config


@torch.inference_mode()
def _check(folder: Path, model: Transformer, tokenizer: Tokenizer, sides: Sequence[TheirVocabulary]) -> float | None:
    """Return the largest difference of a logit from transformers'; None if that is not installed."""
    if not find_spec("transformers"):
        return None
    engine = HuggingFaceEngine(folder)
    target = engine.target
    same_positions = True
    assert isinstance(model.src_positions, SinusoidalPositions)
    for table in (target.model.encoder.embed_positions.weight, target.model.decoder.embed_positions.weight):
        own = huggingface.theirs_order(model.src_positions.vectors(0, len(table)))
        same_positions &= bool((own - table).abs().max() <= LOGIT_TOLERANCE)
        table.copy_(own)  # files in half precision have rounded sinusoids
    random = Random(0)
    lengths = [random.randint(1, 16) for _ in range(CHECKED_TEXTS)]
    sources, targets = (
        [[random.randrange(EOS + 1, size) for _ in range(length)] for length in lengths]
        for size in (tokenizer.src_vocab, tokenizer.tgt_vocab)
    )
    texts = tokenizer.decode_src(sources), tokenizer.decode_tgt(targets)
    tag = source_tag(tokenizer)
    ids = tokenizer.encode_src(texts[0]), tokenizer.encode_tgt(texts[1])
    encoded = [[[side.ids[id_] for id_ in row] for row in each] for side, each in zip(sides, ids, strict=True)]
    given = {
        "text": [tag * bool(row) + text for text, row in zip(texts[0], ids[0], strict=True)],
        "text_target": texts[1],
    }
    theirs = [engine.tokenizer(**{name: each}, add_special_tokens=False)["input_ids"] for name, each in given.items()]
    src, mask = pad([[*ids, EOS] for ids in sources], torch.device("cpu"))
    tgt, _ = pad([[BOS, *ids] for ids in targets], torch.device("cpu"))
    src_ids, tgt_ids = (torch.tensor(side.ids) for side in sides)
    other = target(input_ids=src_ids[src], attention_mask=mask.long(), decoder_input_ids=tgt_ids[tgt]).logits
    other = other[..., tgt_ids[EOS:]]
    difference = float((model(src, mask, tgt)[..., EOS:] - other).abs().max())
    differ = {
        "positions": not same_positions,
        "token ids": theirs != encoded,
        f"logits (by {difference:.1e})": not difference <= LOGIT_TOLERANCE * max(1.0, float(other.abs().max())),
    }
    if wrong := [name for name, is_so in differ.items() if is_so]:
        raise HeedError(
            f"The import was not written: its {' and '.join(wrong)} differ from those of transformers. This is a bug "
            f"in heed: please report it with {folder / 'config.json'}."
        )
    return difference
