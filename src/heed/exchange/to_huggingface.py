"""``heed export --to huggingface``: a folder for transformers, with Marian for post-norm and Pegasus for pre-norm."""

import json
import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from heed.data.pairs.tokenizer import Tokenizer
from heed.decoding import GreedySearch, Hypothesis, NBest, Search
from heed.decoding.search import Constraints
from heed.errors import HeedError
from heed.exchange import huggingface, require
from heed.exchange.parity import CheckSet, ExportedEngine, ParityReport, compare_engines
from heed.exchange.weights import common_gaps, query_projection, refuse, require_transformer
from heed.inference.engine import pad
from heed.inference.searches import search_settings
from heed.inference.translator import Translator
from heed.languages import base_language
from heed.layers.attention import MultiHeadAttention
from heed.models.seq2seq import Seq2Seq
from heed.models.transformer import Transformer
from heed.models.transformer_config import TransformerConfig
from heed.symbols import BOS, EOS, EOS_PIECE, PAD, PAD_PIECE, UNK, UNK_PIECE

POSITIONS = 1024
"""Positions of the sinusoidal table."""

SPECIAL_IDS = {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS, "decoder_start_token_id": BOS}


def export(translator: Translator, out: Path, check: CheckSet, *, quantization: None) -> ParityReport:
    """Write a new folder that ``AutoModelForSeq2SeqLM`` and ``AutoTokenizer`` of transformers load.

    Raises:
        HeedError: if transformers is not installed or has no class for the model, or the check fails.
    """
    transformers = load_transformers()
    model = check_supported(translator.model)
    if translator.tokenizer.has_words:
        raise HeedError("transformers unites adjacent unknown words (tokenizer=word): use `--to ctranslate2`.")
    out.mkdir()
    target = convert(model)
    settings = search_settings(translator.saved_search, "beam")  # type: ignore[arg-type]
    target.generation_config = transformers.GenerationConfig(
        num_beams=settings["beam"],
        # transformers refuses one for greedy search.
        **({"length_penalty": settings["length_penalty"]} if settings["beam"] > 1 else {}),
        no_repeat_ngram_size=settings["no_repeat_ngram_size"],
        max_length=POSITIONS,
        suppress_tokens=[PAD, BOS],
        **SPECIAL_IDS,
    )
    target.save_pretrained(out)
    _save_tokenizer(out, translator)
    engine = HuggingFaceEngine(out)
    engine.check_tokenizer(translator.tokenizer, check.sources)
    report = compare_engines(translator, engine, check)
    card = out / "README.md"
    languages = [language for language in (translator.src_lang, translator.tgt_lang) if language]
    template = Path(__file__).with_name("card.md").read_text(encoding="utf-8")
    text = template.format(
        language=f"language: {json.dumps(list(map(base_language, languages)))}\n" if languages else "",
        direction=" → ".join(languages) or "unknown languages",
        **_origin(translator.base_model),
        tag=source_tag(translator.tokenizer),
        report="\n".join(f"- {line}" for line in report.lines()),
    )
    card.write_text(text, encoding="utf-8")
    # safetensors makes its file readable by the owner only. Use the mode of the card, which follows the umask.
    (out / "model.safetensors").chmod(card.stat().st_mode)
    return report


def load_transformers() -> Any:
    """Return transformers, which prints errors only; raise a HeedError if it is not installed."""
    transformers = require("transformers")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return transformers


def source_tag(tokenizer: Tokenizer) -> str:
    """Return what their sources start with in the direction of a tokenizer, such as ">>de<<"; usually nothing."""
    return "".join(map(huggingface.their_tag, tokenizer.src_pieces(tokenizer.tag_ids)))


def _origin(base: Mapping[str, str | None] | None) -> dict[str, str]:
    """Return what a card says of the model that was published, and fine-tuned perhaps."""
    if base is None:
        return {"base": "", "origin": "Trained from scratch with"}
    name, terms = base.get("name"), base.get("license")
    known = {"license": terms, "base_model": name if name and "/" in name else None}
    matter = "".join(f"{key}: {json.dumps(value)}\n" for key, value in known.items() if value)
    return {"base": matter, "origin": f"Made from {name} (licence: {terms or 'unknown'}) with"}


class HuggingFaceEngine(ExportedEngine):
    """Runs a folder with ``transformers``, with greedy search only, as checks need it."""

    def __init__(self, folder: Path) -> None:
        transformers = load_transformers()
        load = transformers.AutoModelForSeq2SeqLM.from_pretrained
        self.target = load(folder, local_files_only=True, dtype=torch.float32).eval()
        with warnings.catch_warnings():
            # transformers recommends a punctuation normaliser that it does not use.
            warnings.filterwarnings("ignore", message=".*sacremoses")
            load = transformers.AutoTokenizer.from_pretrained
            self.tokenizer = load(folder, local_files_only=True, split_special_tokens=True)  # "</s>" in a text is text

    def check_tokenizer(self, tokenizer: Tokenizer, sentences: list[str]) -> None:
        """Raise a HeedError unless both tokenizers encode and decode every sentence alike."""
        tag = source_tag(tokenizer)
        encoded = [[*ids, EOS] for ids in tokenizer.encode_src(sentences)]
        targets = [ids for ids in tokenizer.encode_tgt(sentences) if UNK not in ids]
        texts = tokenizer.decode_tgt(targets)
        decoded = self.tokenizer.batch_decode(targets, skip_special_tokens=True)
        ours, theirs = [*encoded, *texts], [*self.tokenizer([tag + each for each in sentences])["input_ids"], *decoded]
        for sentence, own, other in zip([*sentences, *texts], ours, theirs, strict=True):
            if own != other:
                raise HeedError(
                    "The export was not written: the tokenizer of transformers encodes or decodes differently, for "
                    f"example {sentence!r}. This is a bug in heed: please report it."
                )

    has_constraints = False

    def check(self, search: Search, *, constrained: bool = False) -> None:
        if constrained or not isinstance(search, GreedySearch):
            raise HeedError(
                "heed runs exports to Hugging Face to check them, with greedy search and without prefixes and terms: "
                "use `generate` of transformers."
            )

    @torch.inference_mode()
    def search(self, sources: Sequence[Sequence[int]], search: Search, constraints: Constraints = None) -> list[NBest]:
        src, mask = pad([[*ids, EOS] for ids in sources], self.target.device)
        limits = [search.limit(len(ids) + 1, None) for ids in sources]
        ngrams = search.no_repeat_ngram_size
        options = {"num_beams": 1, "do_sample": False, "max_new_tokens": max(limits), "no_repeat_ngram_size": ngrams}
        found: Tensor = self.target.generate(input_ids=src, attention_mask=mask.long(), **options)
        rows = [row[:limit] for row, limit in zip(found[:, 1:].tolist(), limits, strict=True)]
        ends = [row.index(EOS) if EOS in row else None for row in rows]
        return [
            [Hypothesis(row[:end], log_prob=math.nan, score=math.nan, finished=end is not None)]
            for row, end in zip(rows, ends, strict=True)
        ]

    @torch.inference_mode()
    def score(self, source: Sequence[int], target: Sequence[int]) -> float:
        logits: Tensor = self.target(
            input_ids=torch.tensor([[*source, EOS]]), decoder_input_ids=torch.tensor([[BOS, *target]])
        ).logits
        log_probs = logits.log_softmax(-1)[0].gather(1, torch.tensor([[*target, EOS]]).T)
        return float(log_probs.sum())


def _save_tokenizer(folder: Path, translator: Translator) -> None:
    """Write the files of a ``MarianTokenizer``: SentencePiece models, vocabularies and settings."""
    tokenizer = translator.tokenizer
    settings = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": translator.src_lang,
        "target_lang": translator.tgt_lang,
        "separate_vocabs": not tokenizer.joint,
        "model_max_length": POSITIONS,
        "unk_token": UNK_PIECE,
        "eos_token": EOS_PIECE,
        "pad_token": PAD_PIECE,
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": True,  # "</s>" in a text is text
    }
    vocabularies = {"vocab.json": tokenizer.src_pieces(range(tokenizer.src_vocab))}
    if not tokenizer.joint:
        vocabularies["target_vocab.json"] = tokenizer.tgt_pieces(range(tokenizer.tgt_vocab))
    tags = {tag: huggingface.their_tag(tag) for tag in tokenizer.tags}
    ids = {
        name: {tags.get(piece, piece): id_ for id_, piece in enumerate(every)} for name, every in vocabularies.items()
    }
    for name, content in {"tokenizer_config.json": settings, **ids}.items():
        text = json.dumps(content, ensure_ascii=False, indent=1)
        (folder / name).write_text(f"{text}\n", encoding="utf-8")
    (folder / "source.spm").write_bytes(tokenizer.models[0])
    (folder / "target.spm").write_bytes(tokenizer.models[-1])


# ---- the model


def check_supported(model: Seq2Seq) -> Transformer:
    """Return the model if Marian or Pegasus can compute it; otherwise raise a HeedError naming the missing parts."""
    transformer = require_transformer(model, "transformers")
    config, positions = transformer.config, transformer.config.positions
    is_shared = transformer.output is transformer.tgt_embedding is transformer.src_embedding
    is_sinusoidal = (positions.kind, positions.merge) == ("sinusoidal", "add")
    unsupported = {
        **common_gaps(config),
        f"{config.norm_kind} norm (model.norm_kind={config.norm_kind})": config.norm_kind != "layer",
        f"positions but added sinusoids (model.positions.kind={positions.kind})": not is_sinusoidal,
        "gated feed-forward network (model.activation=swiglu)": config.activation == "swiglu",
        "separate embeddings of source, target and output in a pre-norm model": config.norm == "pre" and not is_shared,
    }
    refuse("transformers", unsupported, otherwise=" CTranslate2 may: try `--to ctranslate2`.")
    return transformer


def empty_model(config: TransformerConfig, *, src_vocab: int, tgt_vocab: int, shared: bool) -> Any:
    """Return a new model of the same size, with random weights. If ``shared``, both sides have one embedding."""
    transformers = require("transformers")
    kind, make = {
        "post": (transformers.MarianConfig, transformers.MarianMTModel),
        "pre": (transformers.PegasusConfig, transformers.PegasusForConditionalGeneration),
    }[config.norm]
    separate = {} if shared else {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": tgt_vocab}
    settings = {theirs: getattr(config, ours) for theirs, ours in huggingface.SETTINGS.items()}
    settings |= {"vocab_size": src_vocab, "max_position_embeddings": POSITIONS, "init_std": config.d_model**-0.5}
    settings |= {"scale_embedding": True, "forced_eos_token_id": None, **SPECIAL_IDS}
    return make(kind(**settings, **separate))


@torch.no_grad()
def convert(model: Transformer) -> Any:
    """Return a Marian or Pegasus model with the weights of a model that `check_supported` accepts."""
    target = empty_model(
        model.config,
        src_vocab=model.src_embedding.num_embeddings,
        tgt_vocab=model.tgt_embedding.num_embeddings,
        shared=model.src_embedding is model.tgt_embedding,
    ).eval()
    weights = dict(model.state_dict())
    for name, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):
            weights[f"{name}.query.weight"], weights[f"{name}.query.bias"] = query_projection(module)
    theirs = huggingface.to_theirs(weights, model.config)
    if model.output_bias is not None:
        theirs[huggingface.BIAS] = model.output_bias[None]
    _, unknown = target.load_state_dict(theirs, strict=False)  # it computes the sinusoids itself
    assert not unknown
    return target
