"""``benchmark decode``: translation by heed, Marian and CTranslate2 with the same weights, greedy and beam search."""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from benchmark.exported_peers import Batches, CTranslate2Decoding, MarianDecoding
from benchmark.measure import rows, timed
from benchmark.peers import UnavailableError, in_new_process, start_peers
from heed.data.pairs.pairs import Pairs, id_lists
from heed.data.steps.batch import collate
from heed.decoding import BeamSearch, GreedySearch, Search
from heed.decoding.search import for_search
from heed.errors import HeedError
from heed.inference import model_folder
from heed.kernels import WeightPacker
from heed.kernels.choice import keep_freed_memory
from heed.launch import train
from heed.launch.compose import compose
from heed.models.seq2seq import Seq2Seq
from heed.models.transformer import Transformer

KINDS = {"hf": ("fp32",), "ctranslate2": ("float32", "int8")}
"""Data types of each peer."""

Work = tuple[Sequence[tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]], int]
"""The input of each side: (src, src_mask) of each batch, and the beam size. A beam of 1 is greedy search."""
Translations = list[list[int]]
"""Target ids of all rows of all batches, in order, without EOS."""
Side = Callable[[Work], tuple[Translations, float]]
"""Returns translations and seconds."""


class Decoder(Protocol):
    """Translates batches by one library."""

    def translate(self, batches: Batches, *, beam: int) -> Translations: ...


def translate(decoder: Decoder, work: Work) -> Translations:
    """Translate batches of arrays, so that processes can exchange them."""
    batches, beam = work
    return decoder.translate([(torch.from_numpy(src), torch.from_numpy(mask)) for src, mask in batches], beam=beam)


def build_search(beam: int, *, longest: int) -> Search:
    """Return greedy search (a beam of 1) or beam search without length penalty, with a limit of target tokens."""
    limits: dict[str, Any] = {"max_length_factor": 0.0, "max_length_extra": longest}
    return GreedySearch(**limits) if beam == 1 else BeamSearch(beam=beam, length_penalty=0.0, n_best=1, **limits)


class HeedDecoding:
    """heed's search. ``longest``: limit of target tokens."""

    def __init__(self, model: Seq2Seq, *, longest: int) -> None:
        self.model = model.eval()
        self.packer = WeightPacker()
        self.longest = longest

    def translate(self, batches: Batches, *, beam: int) -> Translations:
        search = build_search(beam, longest=self.longest)
        with torch.inference_mode():  # as `heed translate` does
            model = for_search(self.model, self.packer.prepared_linear)
            return [n_best[0].tokens for src, mask in batches for n_best in search(model, src, mask)]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("--model", type=Path, help="run or model folder (default: train a model)")
    parser.add_argument("--steps", type=int, default=300, help="training steps without --model (default: %(default)s)")
    parser.add_argument("--sentences", type=int, default=200, help="sentences of the test set (default: %(default)s)")
    parser.add_argument("--batches", default="1,64", help="batch sizes in sentences (default: %(default)s)")
    parser.add_argument("--beams", default="5,1")
    parser.add_argument("--longest", type=int, default=80, help="limit of target tokens (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the sections ``decode`` and ``skipped`` of bench.json."""
    keep_freed_memory()  # as `heed translate` does
    with TemporaryDirectory() as folder:
        trained = arguments.model or _train(Path(folder), arguments)
        loaded = model_folder.load(trained)
        ours = partial(translate, HeedDecoding(loaded.model, longest=arguments.longest))
        sources = loaded.tokenizer.encode_src(_sentences(arguments, loaded.config["src_lang"]))

        make = partial(peer_translator, trained, Path(folder), longest=arguments.longest, threads=arguments.threads)
        makers = {f"{peer} {kind}": partial(make, peer, kind) for peer in arguments.peers for kind in KINDS[peer]}
        peers, skipped = start_peers(makers, now=arguments.now)
        sides: dict[str, Side] = {"heed": lambda work: timed(ours, work, arguments.now), **peers}
        found: list[dict[str, Any]] = []
        for beam in map(int, arguments.beams.split(",")):
            for size in map(int, arguments.batches.split(",")):
                print(f"decode: beam {beam}, batch {size}, {len(sources)} sentences", flush=True)
                facts = {"beam": beam, "batch": size, "threads": arguments.threads}
                found += _measure(sides, (in_batches(sources, size), beam), arguments.rounds, facts)
    return {"decode": [*found, *_best(found)], "skipped": skipped}


def peer_translator(
    trained: Path, folder: Path, peer: str, kind: str, *, longest: int, threads: int
) -> Callable[[Work], Translations]:
    """Return a peer's translate function with the weights of a run or model folder.

    Args:
        folder: for files that the peer needs.

    Raises:
        UnavailableError: the peer is not installed or does not support the model.
    """
    model = model_folder.load(trained).model
    if not isinstance(model, Transformer):
        raise UnavailableError("it does not support this RNN")
    if peer == "hf":
        return partial(translate, MarianDecoding(model, longest=longest))
    return partial(translate, CTranslate2Decoding(model, folder / kind, kind=kind, threads=threads, longest=longest))


def _measure(sides: dict[str, Side], work: Work, rounds: int, facts: dict[str, Any]) -> list[dict[str, Any]]:
    batches, beam = work
    rates: dict[str, list[float]] = {name: [] for name in sides}
    outputs: dict[str, Translations] = {}
    for side in sides.values():
        side((batches[-1:], beam))
    for _ in range(rounds):
        for name, side in sides.items():
            outputs[name], seconds = side(work)
            rates[name].append(len(outputs[name]) / seconds)
    found = rows(rates, unit="sentences/s", **facts)
    ours = outputs["heed"]
    for row in found:
        theirs = outputs[row["peer"]]
        row["equal"] = round(sum(a == b for a, b in zip(ours, theirs, strict=True)) / len(ours), 4)
        row["tokens"] = {"ours": _mean_length(ours), "theirs": _mean_length(theirs)}
        print(f"  {row['peer']:<24} {row['equal']:.1%} equal; {row['tokens']} tokens a sentence", flush=True)
    return found


def _best(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Compare heed and each peer, each at its fastest batch size."""
    best = []
    for peer, beam in dict.fromkeys((row["peer"], row["beam"]) for row in found):
        tried = [row for row in found if (row["peer"], row["beam"]) == (peer, beam)]
        ours, theirs = (max(row[side] for row in tried) for side in ("ours", "theirs"))
        row = {"peer": peer, "beam": beam, "batch": "best", "threads": tried[0]["threads"]}
        best.append({**row, "ours": ours, "theirs": theirs, "ratio": round(ours / theirs, 3)})
        print(f"  best batch, beam {beam}: {peer} {theirs:.1f}, heed {ours:.1f}, ratio {ours / theirs:.2f}", flush=True)
    return best


def in_batches(sources: Sequence[Sequence[int]], size: int) -> list[Any]:
    """Batch sentences by length, longest first; EOS is appended to each."""
    ids = id_lists(sources)
    pairs = Pairs(np.arange(len(sources)), ids, ids)
    lengths = np.array([len(source) for source in sources])
    order = np.argsort(-lengths, kind="stable")
    batches = [collate(order[start : start + size], pairs) for start in range(0, len(order), size)]
    return [(batch.src.numpy(), batch.src_mask.numpy()) for batch in batches]


def _mean_length(outputs: Sequence[Sequence[int]]) -> float:
    return round(sum(map(len, outputs)) / len(outputs), 2)


def _sentences(arguments: argparse.Namespace, language: str) -> list[str]:
    if arguments.data:
        file = arguments.data / f"test_2016_flickr.{language}"
        if not file.is_file():
            raise HeedError(f"There is no {file}: --data must be a folder with Multi30k's files.")
        lines = file.read_text(encoding="utf-8").split("\n")[:-1]
    else:
        from heed.data.text.synthetic_corpus import read_split

        lines = read_split("test").src
    return lines[: arguments.sentences]


def _train(folder: Path, arguments: argparse.Namespace) -> Path:
    """Train a model, so that translations end at a plausible length."""
    data = ["data=multi30k", f"data.root={arguments.data.resolve()}"] if arguments.data else ["data=synthetic"]
    steps = arguments.steps
    settings = [
        *data, "model=transformer", "model.d_model=256", "model.d_ff=1024", "model.encoder_layers=3",
        "model.decoder_layers=3", "model/positions=sinusoidal", "optimizer=adamw", "schedule=inverse_sqrt",
        "logger=none", "test=false", "trainer=cpu", f"trainer.max_steps={steps}", f"trainer.validate_every={steps}",
        "trainer.max_epochs=null",
        "callbacks.attention_maps=null", "callbacks.attention_heads=null", f"cache_dir={folder}/cache",
    ]  # fmt: skip
    print(f"decode: training a model for {steps} steps", flush=True)
    in_new_process(_train_in_process, settings, folder / "run")
    return folder / "run"


def _train_in_process(settings: list[str], folder: Path) -> None:
    train(compose(settings, folder=folder))
