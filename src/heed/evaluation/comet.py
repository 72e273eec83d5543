"""COMET and CometKiwi, learned metrics (Rei et al. 2020, 2022), with the XLM-R of Hugging Face transformers.

heed reads the checkpoints of Unbabel's program, and comes without any. A feed-forward network estimates the score from
embeddings h of the translation, s of the source and r of the reference (⊙ is the element-wise product):

- ``regression_metric`` (wmt22-comet-da): from [h; r; h⊙r; |h−r|; h⊙s; |h−s|];
- ``referenceless_regression_metric`` (wmt20-comet-qe-da): from [h; s; h⊙s; |h−s|];
- ``unified_metric`` (wmt22-cometkiwi-da): from the embedding of one text that joins the translation with the source,
  the reference, or both. A model that reads both takes the mean over these three texts.
"""

import pickle
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from heed.errors import HeedError, argument, first_line, require
from heed.evaluation.scores import MetricScore, SystemOutput
from heed.files import read_yaml
from heed.progress import progress_bar

TEXTS = ("mt", "src", "ref")  # translation, source and reference, in the order in which models join them
KNOWN: Mapping[str, Sequence[object]] = {
    "class_identifier": ("regression_metric", "referenceless_regression_metric", "unified_metric"),
    "encoder_model": ("XLM-RoBERTa",),
    "pool": ("avg", "cls"),
    "activations": ("Tanh",),
    "final_activation": (None,),
}
"""The values of a model's options that heed computes, first the default."""
TOKENS_AT_ONCE = 4096  # padded tokens that are encoded at a time
TextIds = tuple[int, ...]  # a text as token ids, with those of ``<s>`` and ``</s>``


class Comet:
    """A metric of the COMET family. Nothing is downloaded; a HeedError says what is missing.

    Args:
        name: A folder with ``hparams.yaml`` and ``checkpoints/model.ckpt``, the checkpoint in such a folder, or a model
            of the Hugging Face hub that is in the local cache.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.model, self.tokenizer, self.options = load_model(name)
        self.reads: Sequence[str] = self.options["texts"]
        self.embeddings: dict[TextIds, Tensor] = {}
        """Of the sources and references of the last call: validations repeat them."""

    def score(self, output: SystemOutput) -> MetricScore:
        """Return the mean over sentences and references, usually between 0 and 1."""
        if "src" in self.reads and output.sources is None:
            raise HeedError(f"COMET needs the source sentences: add {argument('src', 'FILE')}.")
        hypotheses, sources = self._encode(output.hypotheses), self._encode(output.sources or [""])
        references = [self._encode(lines) for lines in output.references] if "ref" in self.reads else [[]]
        self.model.to("cuda" if torch.cuda.is_available() else "cpu")
        try:
            with torch.inference_mode():
                scores = [self._predict({"mt": hypotheses, "src": sources, "ref": lines}) for lines in references]
        finally:
            self.model.to("cpu")  # training needs the memory of the GPU
        kept = self.embeddings.keys() & {*sources, *chain(*references)}
        self.embeddings = {ids: self.embeddings[ids] for ids in kept}
        used = len(references) if "ref" in self.reads else 0
        value = torch.stack(scores).mean().item()
        return MetricScore(value, f"nrefs:{used}|model:{self.name}|transformers:{version('transformers')}")

    def _encode(self, lines: Sequence[str]) -> list[TextIds]:
        ids = self.tokenizer([*lines], truncation=True, max_length=self.options["longest"] - 2)["input_ids"]
        return list(map(tuple, ids))

    def _predict(self, texts: Mapping[str, list[TextIds]]) -> Float[Tensor, " N"]:
        """Return the score of each sentence."""
        if self.options["class_identifier"] == "unified_metric":
            views = [("mt", "src"), ("mt", "ref"), self.reads] if len(self.reads) == 3 else [self.reads]
            joined = [join([texts[name] for name in view], self.options["longest"]) for view in views]
            return self.model.estimator(torch.stack([self._embed(rows) for rows in joined])).mean(0).squeeze(1)
        h, s, *r = (self._embed(texts[name]) for name in self.reads)
        of_source = [h * s, (h - s).abs()]
        features = [h, r[0], h * r[0], (h - r[0]).abs(), *of_source] if r else [h, s, *of_source]
        return self.model.estimator(torch.cat(features, dim=1)).squeeze(1)

    def _embed(self, texts: Sequence[TextIds]) -> Float[Tensor, "N D"]:
        """Return the embedding of each text, computed in batches of similar length."""
        waiting = sorted({*texts} - self.embeddings.keys(), key=len, reverse=True)
        with progress_bar("Encoding texts for COMET", total=len(waiting), unit="texts") as bar:
            while waiting:
                rows = max(1, TOKENS_AT_ONCE // len(waiting[0]))
                batch, waiting = waiting[:rows], waiting[rows:]
                tensors = [torch.tensor(ids, device=self.model.mix.device) for ids in batch]
                ids = pad_sequence(tensors, batch_first=True, padding_value=self.tokenizer.pad_token_id)
                mask = pad_sequence([torch.ones_like(row, dtype=torch.bool) for row in tensors], batch_first=True)
                self.embeddings |= zip(batch, self.model(ids, mask), strict=True)
                bar.update(len(batch))
        return torch.stack([self.embeddings[ids] for ids in texts])


load_comet = cache(Comet)


def join(texts: Sequence[Sequence[TextIds]], longest: int) -> list[TextIds]:
    """Return ``<s> A </s> </s> B </s>`` for each row of texts ``<s> A </s>`` and ``<s> B </s>``."""
    rows = ((first, *(ids[-1:] + ids[1:] for ids in others)) for first, *others in zip(*texts, strict=True))
    return [tuple(chain(*row))[:longest] for row in rows]


class CometModel(nn.Module):
    """XLM-R, a mix of its layers, pooling, and the estimator; ``weights`` have their names in the checkpoint."""

    mix: Float[Tensor, " L"]

    def __init__(self, encoder: Any, options: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.encoder = encoder
        is_unified = options["class_identifier"] == "unified_metric"
        layer = options.get("sent_layer" if is_unified else "layer", "mix")
        layers = encoder.config.num_hidden_layers + 1
        self.normalizes = layer == "mix" and options.get("layer_norm", True)
        self.averages = not is_unified and options.get("pool", "avg") == "avg"
        if layer == "mix":
            w = torch.cat([weights[f"layerwise_attention.scalar_parameters.{k}"] for k in range(layers)]).float()
            # Any other name is softmax: Unbabel's models rely on that.
            a = sparsemax(w) if options.get("layer_transformation") == "sparsemax" else w.softmax(0)
            mix = weights["layerwise_attention.gamma"].float() * a
        else:
            mix = F.one_hot(torch.tensor(layer), layers).float()
        self.register_buffer("mix", mix)
        sizes = [weights["estimator.ff.0.weight"].shape[1], *options["hidden_sizes"], 1]
        parts = ((nn.Linear(*shape), nn.Tanh(), nn.Dropout()) for shape in pairwise(sizes))
        self.estimator = nn.Sequential(*chain(*parts))[:-2]
        prefix = "estimator.ff."
        found = {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}
        self.estimator.load_state_dict(found)

    def forward(self, ids: Int[Tensor, "N S"], mask: Bool[Tensor, "N S"]) -> Float[Tensor, "N D"]:
        """Return the mean over tokens, or the first token, of γ Σ_l a_l h_l with the states h_l of layer l.

        Layer 0 is the input of the first one. ``mask`` is True for tokens and False for padding.
        """
        states = self.encoder(ids, mask.long(), output_hidden_states=True).hidden_states
        states = (normalize(h, mask) if self.normalizes else h for h in states)
        mixed = sum((a * h for a, h in zip(self.mix, states, strict=True)), start=torch.zeros((), device=ids.device))
        if not self.averages:
            return mixed[:, 0]
        return (mixed * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


def sparsemax(scores: Float[Tensor, " L"]) -> Float[Tensor, " L"]:
    """Return the point of the probability simplex that is nearest to the scores (Martins & Astudillo 2016, alg. 1)."""
    descending = scores.sort(descending=True).values
    excess = descending.cumsum(0) - 1
    support = int((torch.arange(1, len(scores) + 1) * descending > excess).sum())
    return (scores - excess[support - 1] / support).clamp(min=0)


def normalize(states: Float[Tensor, "N S D"], mask: Bool[Tensor, "N S"]) -> Float[Tensor, "N S D"]:
    """Subtract the mean over the tokens and dimensions of each text, and divide by the standard deviation."""
    used, count = mask[..., None], mask.sum(1)[:, None, None] * states.shape[-1]
    centred = states - (states * used).sum((1, 2), keepdim=True) / count
    return centred / ((centred * used).square().sum((1, 2), keepdim=True) / count + 1e-12).sqrt()


# ---- reading a model


def load_model(name: str) -> tuple[CometModel, Any, Mapping[str, Any]]:
    """Return the network, the tokenizer and the options of a model, without executing code in its files.

    The options also have the "texts" that it reads, and the tokens of the "longest" one.
    """
    transformers = require("transformers", "COMET", "comet")
    checkpoint = _find_checkpoint(name)
    folder = checkpoint.parents[1]
    try:
        content = torch.load(checkpoint, map_location="cpu", weights_only=True, mmap=True)
        options = {**content.get("hyper_parameters", {}), **read_yaml(folder / "hparams.yaml")}
        weights, encoder, kind = content["state_dict"], options["pretrained_model"], options["class_identifier"]
    except (OSError, EOFError, RuntimeError, KeyError, TypeError, pickle.UnpicklingError) as error:
        raise HeedError(f"{checkpoint} is damaged, or no checkpoint of COMET: {first_line(error)}.") from error
    for option, known in KNOWN.items():
        if (value := options.get(option, known[0])) not in known:
            raise HeedError(f"COMET {name} has {option}={value}: heed computes {', '.join(map(str, known))} only.")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    # In a folder beside the weights, so that a model can be copied as a whole, or in the cache of the hub.
    source = folder / encoder if (folder / encoder).is_dir() else encoder
    try:
        config = transformers.XLMRobertaConfig.from_pretrained(source, local_files_only=True)
        tokenizer = transformers.AutoTokenizer.from_pretrained(source, local_files_only=True)
    except (OSError, ValueError) as error:
        raise HeedError(
            f"COMET {name} needs the tokenizer of {encoder}, which is not on this machine: fetch it with `hf download "
            f"{encoder} --include '*.json' '*.model'`, or copy these files to {folder / encoder}."
        ) from error
    prefix = "encoder.model."
    state = {key.removeprefix(prefix): weight for key, weight in weights.items() if key.startswith(prefix)}
    try:
        xlm_r, found = transformers.XLMRobertaModel.from_pretrained(
            None, config=config, state_dict=state, output_loading_info=True, add_pooling_layer=False, dtype="float32"
        )
        if found["missing_keys"]:
            raise KeyError(min(found["missing_keys"]))
        model = CometModel(xlm_r, options, weights).eval()
    except (KeyError, RuntimeError) as error:
        raise HeedError(f"The weights of COMET {name} do not fit {encoder}: {first_line(error)}.") from error
    reads = options.get("input_segments", TEXTS[:2] if kind == "referenceless_regression_metric" else TEXTS)
    texts = [text for text in TEXTS if text in reads]
    return model, tokenizer, {**options, "texts": texts, "longest": config.max_position_embeddings - 2}


def _find_checkpoint(name: str) -> Path:
    from huggingface_hub import snapshot_download

    path = Path(name).absolute()
    try:
        folder = path if path.exists() else Path(snapshot_download(name, local_files_only=True))
    except (OSError, ValueError) as error:  # not in the cache, or not a valid model name
        raise HeedError(
            f"There is no COMET model {name} on this machine: give its folder or its checkpoint (….ckpt), or fetch it "
            f"first with `hf download {name}`."
        ) from error
    return folder if folder.is_file() else folder / "checkpoints" / "model.ckpt"
