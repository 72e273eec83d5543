"""Train a MarianMTModel with transformers, without heed: a model in OPUS-MT's format, to try ``heed import`` on.

    python scripts/marian.py train.en train.de --out opus --steps 600
    heed import opus --out opus-heed

Published models have this layout: SentencePiece models of both sides with ids of their own, one vocab.json for both,
</s> = 0, <unk> = 1, <pad> last, post-norm, swish, tied embeddings, a bias of the output, <pad> before the first token.
"""

import argparse
import io
import json
import random
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import sentencepiece as spm
import torch

from heed.cli.lines import read_file

SMALL = {
    "d_model": 128,
    "encoder_layers": 3,
    "encoder_attention_heads": 4,
    "encoder_ffn_dim": 512,
    "decoder_layers": 2,
    "decoder_attention_heads": 4,
    "decoder_ffn_dim": 512,
}
BATCH, LEARNING_RATE, WARMUP, LABEL_SMOOTHING = 128, 1e-3, 200, 0.1
"""Sentences of a step, the peak of AdamW's learning rate, the steps before it, and the share of the other tokens."""


def segmentation_model(lines: Iterable[str], *, size: int, kind: str = "unigram") -> bytes:
    """Train SentencePiece as OPUS-MT does: with its own ids of <unk>, <s> and </s>, and the usual normalization."""
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, model_type=kind, vocab_size=size, hard_vocab_limit=False,
        minloglevel=2,
    )  # fmt: skip
    return model.getvalue()


def write_marian(
    folder: Path,
    lines: Sequence[Sequence[str]],
    *,
    size: int = 120,
    kind: str = "unigram",
    tags: Sequence[str] = (),
    without: Callable[[str], bool] = lambda _: False,
    separate: bool = False,
    binary: bool = False,
    **settings: Any,
) -> Any:
    """Write a MarianMTModel with random weights in OPUS-MT's layout; return it.

    Args:
        lines: of source and target.
        tags: of target languages, such as ">>deu<<".
        without: the pieces that the vocabulary lacks, as Marian's lack those that no training text has.
        separate: a vocabulary for each side.
        binary: ``pytorch_model.bin`` in half precision, as older models have.
        settings: of ``MarianConfig``.
    """
    transformers: Any = import_module("transformers")
    folder.mkdir(parents=True)
    models = [segmentation_model(each, size=size, kind=kind) for each in lines]
    pieces = []
    for name, model in zip(("source.spm", "target.spm"), models, strict=True):
        (folder / name).write_bytes(model)
        processor = spm.SentencePieceProcessor(model_proto=model)
        every = [processor.id_to_piece(id_) for id_ in range(3, processor.get_piece_size())]
        pieces.append([piece for piece in every if not without(piece)])
    if separate:  # </s> and <pad> have one id in both
        vocabularies = {"vocab.json": pieces[0], "target_vocab.json": pieces[1]}
        vocabularies = {name: ["</s>", "<unk>", "<pad>", *each] for name, each in vocabularies.items()}
    else:
        vocabularies = {"vocab.json": ["</s>", "<unk>", *tags, *dict.fromkeys([*pieces[0], *pieces[1]]), "<pad>"]}
    for name, vocabulary in vocabularies.items():
        (folder / name).write_text(json.dumps({piece: id_ for id_, piece in enumerate(vocabulary)}), encoding="utf-8")
    tokenizer = {"source_lang": "en", "target_lang": "de", "separate_vocabs": separate}
    (folder / "tokenizer_config.json").write_text(
        json.dumps({**tokenizer, "tokenizer_class": "MarianTokenizer"}), encoding="utf-8"
    )
    (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\n# A model\n", encoding="utf-8")
    vocabulary, last = vocabularies["vocab.json"], list(vocabularies.values())[-1]
    pad = vocabulary.index("<pad>")
    options: dict[str, Any] = {
        "vocab_size": len(vocabulary), "pad_token_id": pad, "decoder_start_token_id": pad, "eos_token_id": 0,
        "bos_token_id": 0, "activation_function": "swish", "scale_embedding": True, "max_position_embeddings": 512,
    }  # fmt: skip
    if separate:
        options |= {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": len(last)}
    generation = {"forced_eos_token_id": 0, "max_length": 512, "num_beams": 4, "bad_words_ids": [[pad]]}
    torch.manual_seed(1)
    config = transformers.MarianConfig(**{**SMALL, **options, **settings})
    marian = transformers.MarianMTModel(config).eval()
    for name, weight in marian.named_parameters():
        if weight.ndim == 2 and "embed_positions" not in name:
            is_table = name.endswith(("shared.weight", "embed_tokens.weight", "lm_head.weight"))
            torch.nn.init.normal_(weight, std=weight.shape[1] ** -0.5) if is_table else torch.nn.init.xavier_uniform_(
                weight
            )
    with torch.no_grad():  # as the converter leaves them: a vector of zeros for <pad>
        for table in (marian.model.encoder.embed_tokens, marian.model.decoder.embed_tokens, marian.lm_head):
            table.weight[pad] = 0.0
    marian.generation_config = transformers.GenerationConfig(
        pad_token_id=pad, decoder_start_token_id=pad, eos_token_id=0, **generation
    )
    save(marian, folder, binary=binary)
    return marian


def save(marian: Any, folder: Path, *, binary: bool = False) -> None:
    """Write the weights and settings of a model."""
    if binary:
        marian.half()
    marian.save_pretrained(folder)
    if binary:
        torch.save(marian.state_dict(), folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()
        marian.float()


def train(marian: Any, folder: Path, lines: Sequence[Sequence[str]], *, steps: int, seed: int = 1) -> None:
    """Train a model that `write_marian` wrote, and write it again."""
    transformers: Any = import_module("transformers")
    transformers.logging.set_verbosity_error()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    pad, rng = marian.config.pad_token_id, random.Random(seed)
    pairs = sorted(zip(*lines, strict=True), key=lambda pair: len(pair[0]))
    torch.manual_seed(seed)
    optimizer = torch.optim.AdamW(marian.parameters(), LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / WARMUP, max(0.0, 1 - step / steps))
    )
    marian.train()
    for step in range(steps):
        start = rng.randrange(max(1, len(pairs) - BATCH))
        src, tgt = zip(*pairs[start : start + BATCH], strict=True)
        batch = tokenizer(list(src), text_target=list(tgt), padding=True, return_tensors="pt")
        labels = batch["labels"]
        inputs = torch.cat((torch.full((len(labels), 1), pad), labels[:, :-1]), 1)
        ids = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
        logits = marian(**ids, decoder_input_ids=inputs).logits
        loss: Any = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), ignore_index=pad, label_smoothing=LABEL_SMOOTHING
        )
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(marian.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if (step + 1) % 50 == 0:
            print(f"step {step + 1} of {steps}: loss {loss.item():.3f}", flush=True)
    save(marian.eval(), folder)


def main() -> None:
    """Read two files of parallel lines, and train a model on them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="new folder")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--pieces", type=int, default=4000, help="of each SentencePiece model")
    arguments = parser.parse_args()
    lines = [list(read_file(path)) for path in (arguments.source, arguments.target)]
    marian = write_marian(arguments.out, lines, size=arguments.pieces)
    train(marian, arguments.out, lines, steps=arguments.steps)


if __name__ == "__main__":
    main()
