"""Models in the format of OPUS-MT, made by transformers."""

import io
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import sentencepiece as spm
import torch

SMALL = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48, "decoder_ffn_dim": 48,
}  # fmt: skip


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
    without: Callable[[str], bool] = lambda piece: False,
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
    """
    import transformers

    folder.mkdir(parents=True)
    models = [segmentation_model(each, size=size, kind=kind) for each in lines]
    pieces = []
    for name, model in zip(("source.spm", "target.spm"), models, strict=True):
        (folder / name).write_bytes(model)
        processor = spm.SentencePieceProcessor(model_proto=model)
        every = [processor.id_to_piece(id_) for id_ in range(3, processor.get_piece_size())]
        pieces.append([piece for piece in every if not without(piece)])
    together = [*dict.fromkeys([*pieces[0], *pieces[1]])]
    tables = {"vocab.json": pieces[0] if separate else together, "target_vocab.json": pieces[1]}
    # Marian's </s> is 0 and <unk> is 1; the converter appends <pad>.
    vocabularies = {name: ["</s>", "<unk>", *tags, *table, "<pad>"] for name, table in tables.items()}
    if separate:  # <pad> and </s> have one id in both
        for vocabulary in vocabularies.values():
            vocabulary.remove("<pad>")
            vocabulary.insert(2, "<pad>")
    else:
        del vocabularies["target_vocab.json"]
    for name, vocabulary in vocabularies.items():
        (folder / name).write_text(json.dumps({piece: id_ for id_, piece in enumerate(vocabulary)}))
    tokenizer = {"source_lang": "en", "target_lang": "de", "separate_vocabs": separate}
    (folder / "tokenizer_config.json").write_text(json.dumps({**tokenizer, "tokenizer_class": "MarianTokenizer"}))
    (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\n# A model\n")
    vocabulary = vocabularies["vocab.json"]
    pad = vocabulary.index("<pad>")
    options = {
        "vocab_size": len(vocabulary), "pad_token_id": pad, "decoder_start_token_id": pad, "eos_token_id": 0,
        "bos_token_id": 0, "forced_eos_token_id": 0, "activation_function": "swish", "scale_embedding": True,
        "max_position_embeddings": 512, "max_length": 512, "num_beams": 4, "bad_words_ids": [[pad]],
    }  # fmt: skip
    if separate:
        options |= {
            "share_encoder_decoder_embeddings": False,
            "decoder_vocab_size": len(vocabularies["target_vocab.json"]),
        }
    generation = {
        name: options.pop(name) for name in ("forced_eos_token_id", "max_length", "num_beams", "bad_words_ids")
    }
    torch.manual_seed(1)
    model = transformers.MarianMTModel(transformers.MarianConfig(**{**SMALL, **options, **settings})).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name:
                parameter.add_(0.1 * torch.randn_like(parameter))
        model.final_logits_bias.normal_()
        for table in {model.get_input_embeddings(), model.get_output_embeddings()}:
            table.weight[pad] = 0.0  # as the converter leaves them
        model.final_logits_bias[:, pad] = 0.0
    model.generation_config = transformers.GenerationConfig(**{**options, **generation})
    if binary:
        model.half().save_pretrained(folder)
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()
        model.float()
    else:
        model.save_pretrained(folder)
    return model
