"""What must hold for a run: scores and losses computed again, by other code and from other places."""

import csv
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import sacrebleu
import torch
from fastapi.testclient import TestClient
from sacrebleu.metrics import BLEU, CHRF
from safetensors.torch import load_file

import heed
from heed.exchange.to_ctranslate2 import CTranslate2Engine
from heed.serve.application import create_app
from heed.serve.models import ServedModel
from heed.symbols import BOS, EOS

LOSS_TOLERANCE = {"32-true": 2e-4, "bf16-mixed": 3e-2}
"""Largest relative difference of a loss: the sum has another order; bf16 has 8 bits."""
SCORE_TOLERANCE = 2e-3
"""Largest difference of log p in nats between a search and teacher forcing."""


def read(file: Path) -> list[str]:
    """Return the lines of a file."""
    return file.read_text(encoding="utf-8").split("\n")[:-1]


def results_of(run: Path) -> dict[str, Any]:
    """Return results.json."""
    found: dict[str, Any] = json.loads((run / "results.json").read_text(encoding="utf-8"))
    return found


def sets_of(run: Path) -> dict[str, dict[str, Any]]:
    """Return the scores of each validation and test set."""
    results = results_of(run)
    return {**(results["valid"].get("sets") or {"valid": results["valid"]}), **results["tests"]}


def scores(run: Path) -> Iterator[str]:
    """Compute BLEU and chrF of the translations again, with sacreBLEU's defaults, from the files of the run."""
    for split, entry in sets_of(run).items():
        hyp, ref = (read(run / "translations" / f"{split}.{side}") for side in ("hyp", "ref"))
        if entry.get("not_comparable") or "tok:13a" not in (entry.get("bleu_signature") or ""):
            continue
        for name, metric in (("bleu", BLEU()), ("chrf", CHRF())):
            again = metric.corpus_score(hyp, [ref]).score
            if not math.isclose(again, entry[name], abs_tol=1e-6):
                yield f"{split}: {name} {entry[name]} in results.json, {again} by sacreBLEU {sacrebleu.__version__}"


@torch.inference_mode()
def losses(run: Path, precision: str) -> Iterator[str]:
    """Compute the loss of each set again: token by token, a sentence at a time, without masks."""
    for split, entry in sets_of(run).items():
        model = heed.load(run)
        model = model.in_direction(next((name for name in model.directions if split.endswith(f"-{name}")), None))
        src, ref = (read(run / "translations" / f"{split}.{side}") for side in ("src", "ref"))
        total, tokens = 0.0, 0
        for source, target in zip(*model.encode_pairs(src, ref), strict=True):
            state = model.model.start(model.model.encode(torch.tensor([source]), None))
            for read_, written in zip([BOS, *target], target, strict=False):
                output, state = model.model.step(torch.tensor([read_]), state)
                total -= output.logits[0, -1].double().log_softmax(-1)[written].item()
                tokens += 1
        if not math.isclose(total / tokens, entry["loss"], rel_tol=LOSS_TOLERANCE[precision]):
            yield f"{split}: {entry['loss']} in results.json, {total / tokens} token by token"


def searched(run: Path, lines: list[str], options: dict[str, Any]) -> Iterator[str]:
    """Compare log p of translations with score(), and the translations with those of other batches and orders."""
    model, others = heed.load(run), heed.load(run, batch_tokens=64)
    sources, search = model.encode(lines), model.changed_search(**options)
    found = [best[0] for best in model.translate_ids(sources, search=search)]
    ended = [(source, best) for source, best in zip(sources, found, strict=True) if best.finished]
    again = model.score_ids([[*source, EOS] for source, _ in ended], [[*best.tokens, EOS] for _, best in ended])
    for (_, best), score in zip(ended, again, strict=True):
        if abs(best.log_prob - score) > SCORE_TOLERANCE:
            yield f"{options}: log p {best.log_prob} by the search, {score} by score(): {best.tokens}"
    backwards = [best[0] for best in others.translate_ids(sources[::-1], search=search)][::-1]
    changed = [pair for pair in zip(found, backwards, strict=True) if pair[0].tokens != pair[1].tokens]
    # Two hypotheses whose scores differ by rounding may change places.
    if far := [(one, other) for one, other in changed if abs(one.score - other.score) > SCORE_TOLERANCE]:
        yield f"{options}: {len(far)} translations depend on the batch: {far[0]}"


def chosen(run: Path) -> Iterator[str]:
    """Compare the weights of the model with those of the checkpoints that results.json names, or their mean."""
    results = results_of(run)
    steps = results["averaged_steps"] or [results["selected_step"]]
    found = [next(iter((run / "checkpoints").glob(f"*-{step:07d}.ckpt")), None) for step in steps]
    if results["weights"] != "ema":
        yield from averaged([file for file in found if file], run / "model")


def examined(run: Path, precision: str, lines: list[str]) -> Iterator[str]:
    """Compute scores, losses and the choice of weights of a run again, and compare its own search with score()."""
    yield from scores(run)
    yield from chosen(run)
    yield from losses(run, precision)
    yield from searched(run, lines, {})


def gradient_norm(run: Path) -> float:
    """Return the largest norm of the gradient in metrics.csv."""
    return max(float(row["grad_norm"] or 0) for row in csv.DictReader(read(run / "metrics.csv")))


def logged(run: Path, other: Path, tolerance: float) -> Iterator[str]:
    """Compare the losses in metrics.csv of two runs."""
    rows = [list(csv.DictReader(read(one / "metrics.csv"))) for one in (run, other)]
    for ours, theirs in zip(*rows, strict=True):
        for name in ours:
            if "nll" in name and not math.isclose(float(ours[name] or 0), float(theirs[name] or 0), rel_tol=tolerance):
                yield f"step {ours['step']}: {name} {ours[name]}, and {theirs[name]} with other processes"


def exported(run: Path, folder: Path, lines: list[str]) -> Iterator[str]:
    """Compare greedy translations of a CTranslate2 export with heed's, up to near ties."""
    model = heed.load(run).without_fallbacks()
    theirs = model.with_engine(CTranslate2Engine(folder))
    ours, others = (each.hypotheses(lines, n=1, beam=1) for each in (model, theirs))
    for line, (one,), (other,) in zip(lines, ours, others, strict=True):
        if one.text != other.text and abs(one.log_prob - other.log_prob) > SCORE_TOLERANCE:
            yield f"{line}: {one.text} by heed, {other.text} by CTranslate2"


def imported(run: Path, folder: Path, lines: list[str]) -> Iterator[str]:
    """Import an export to Hugging Face: it has the tokenizer and the greedy translations of the run, up to near ties."""
    model, again = (heed.load(each).without_fallbacks() for each in (run, folder))
    if model.tokenizer.digest != again.tokenizer.digest:
        yield "the tokenizer of the import is another one"
    ours, others = (each.hypotheses(lines, n=1, beam=1) for each in (model, again))
    for line, (one,), (other,) in zip(lines, ours, others, strict=True):
        if one.text != other.text and abs(one.log_prob - other.log_prob) > SCORE_TOLERANCE:
            yield f"{line}: {one.text} by the run, {other.text} by its import"


def averaged(checkpoints: list[Path], model: Path) -> Iterator[str]:
    """Compute the mean of checkpoints again, in float64."""
    found = [torch.load(file, weights_only=True)["state_dict"] for file in checkpoints]
    for name, mean in load_file(model / "model.safetensors").items():
        key = next((key for key in found[0] if key.endswith(name)), None)
        if key is None:
            yield f"{name} is in no checkpoint"
        elif not torch.allclose(mean.double(), sum(each[key].double() for each in found) / len(found), atol=1e-6):
            yield f"{name} is not the mean of {[file.name for file in checkpoints]}"


def attended(npz: Path) -> Iterator[str]:
    """Each row of a map is a distribution: it sums to 1, to 0 without keys, or to less than 1 with local_p."""
    with np.load(npz) as archive:
        maps = {name: archive[name] for name in archive.files if archive[name].dtype.kind == "f"}
    for name, array in maps.items():
        sums = array.astype(np.float64).sum(-1)
        if array.min() < 0 or sums.max() > 1 + 1e-3 or not np.isfinite(sums).all():
            yield f"{name}: rows sum to {sums.min()} to {sums.max()}"


def served(run: Path, lines: list[str]) -> Iterator[str]:
    """The server's answers are those of `translate`, one text at a time and as a list, and survive bad requests."""
    model = heed.load(run)
    with TestClient(create_app([ServedModel("life", model)])) as client:
        languages = client.get("/languages").json()
        source, target = languages[0]["code"], languages[0]["targets"][0]
        body = {"source": source, "target": target}
        listed = client.post("/translate", json={**body, "q": lines})
        if listed.status_code != 200:
            yield f"status {listed.status_code}: {listed.text[:300]}"
            return
        texts = listed.json()["translatedText"]
        alone = [client.post("/translate", json={**body, "q": line}).json()["translatedText"] for line in lines]
        if texts != alone:
            yield f"a list and single texts differ: {texts[:2]} and {alone[:2]}"
        bodies: tuple[Any, ...] = ({**body, "q": 3}, {"q": "x"}, {**body, "q": lines, "format": "pdf"}, [])
        for wrong in bodies:
            if (status := client.post("/translate", json=wrong).status_code) != 400:
                yield f"status {status} instead of 400 for {str(wrong)[:60]}"
