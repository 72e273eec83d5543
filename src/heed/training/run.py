"""The folder a run leaves behind: its config, results, translations and model."""

import hashlib
import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lightning as L
import torch
import yaml
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from lightning.pytorch.utilities import rank_zero_only

from heed import model_folder
from heed.errors import HeedError
from heed.evaluation.scores import Scores
from heed.models.seq2seq import ModelConfig
from heed.training.callbacks import BLEU, Journal
from heed.training.module import TranslationModule

if TYPE_CHECKING:
    from datasets import Dataset

CONTROL = ("resume", "ckpt_path", "trainer", "callbacks", "logger", "debug", "experiment", "cache_dir", "test")
"""What may differ between a run and its resumption, and does not change what is computed in a step."""


def new_or_unfinished(runs: Path, name: str, *, resume: bool, now: str) -> Path:
    """``runs/name/now``, or with ``resume`` the newest folder of ``runs/name`` that has no results yet."""
    if not resume:
        return runs / name / now
    begun = [path for path in (runs / name).glob("*/") if (path / "checkpoints").is_dir()]
    unfinished = sorted(path for path in begun if not (path / "results.json").exists())
    if not unfinished:
        raise HeedError(
            f"resume=true found nothing to go on with: {runs / name} holds no unfinished run with a checkpoint. "
            "Leave resume out to start one, or name another run with name=NAME."
        )
    return unfinished[-1]


class RunFolder:
    """``runs/NAME/TIME``."""

    def __init__(self, path: Path, config: dict[str, Any]) -> None:
        self.path = path
        self.config = config
        self.checkpoints = path / "checkpoints"

    def open(self, *, resume: bool) -> Path | None:
        """Write the config down; when resuming, see that it still fits, and give the checkpoint to go on from."""
        self.path.mkdir(parents=True, exist_ok=True)
        file = self.path / "config.yaml"
        if resume:
            before = yaml.safe_load(file.read_text(encoding="utf-8"))
            changed = [key for key in self.config if key not in CONTROL and self.config[key] != before.get(key)]
            if changed:
                raise HeedError(
                    f"resume=true goes on with {self.path}, but {', '.join(changed)} differ from its config.yaml. "
                    "Give the same settings, or start a new run from its checkpoint with ckpt_path=."
                )
        file.write_text(yaml.safe_dump(self.config, allow_unicode=True, sort_keys=False), encoding="utf-8")
        return max(self.checkpoints.glob("last-*.ckpt"), default=None) if resume else None

    def write_translations(self, split: str, data: "Dataset", translations: list[str]) -> None:
        """``translations/<split>.{src,ref,hyp}``, one line each, and what is known of the sentences."""
        folder = self.path / "translations"
        folder.mkdir(exist_ok=True)
        for suffix, lines in (("src", data["src"]), ("ref", data["tgt"]), ("hyp", translations)):
            (folder / f"{split}.{suffix}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        if "meta" in data.column_names:
            (folder / f"{split}.meta.jsonl").write_text("".join(f"{m}\n" for m in data["meta"]), encoding="utf-8")

    def write_results(self, facts: Mapping[str, Any], scored: Mapping[str, tuple[Scores, float]]) -> dict[str, Any]:
        """``results.json``: what was trained, how long, and how well. ``scored``: per split its scores and loss."""
        tests = {name: {**asdict(scores), "loss": loss} for name, (scores, loss) in scored.items()}
        valid = tests.pop("valid")
        results = {**facts, "valid": valid, "test": next(iter(tests.values()), None), "tests": tests}
        # Whole or not at all: the file's presence says that the run is finished.
        partial = self.path / "results.json.partial"
        partial.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        partial.replace(self.path / "results.json")
        return results


def finish(run: RunFolder, trainer: L.Trainer, module: TranslationModule) -> None:
    """Leave behind what was learned: the model's folder, translations, ``results.json``, and a word on the screen."""
    data, config, model = module.data, run.config, module.model
    corpus, tokenizer = data.corpus, module.tokenizer
    journal = next(callback for callback in trainer.callbacks if isinstance(callback, Journal))
    for split, (_, _, translations) in module.results.items():
        run.write_translations(split, data.datasets[split], translations)
    languages = {"src_lang": corpus.src_lang, "tgt_lang": corpus.tgt_lang}
    search = {key: value for key, value in config["search"].items() if key != "_target_"}
    model_folder.save(run.path / "model", model, tokenizer, extra={**languages, "search": search})
    facts = {
        "name": config["name"],
        "model": model.config.family,
        "data": corpus.name,
        **languages,
        "seed": config["seed"],
        "params": sum(parameter.numel() for parameter in model.parameters()),
        "steps": trainer.global_step,
        "epochs": round(journal.totals["tgt_tokens"] / data.train_tgt_tokens, 2),
        "train_seconds": round(journal.train_seconds, 1),
        "tokens_per_second": round(journal.tokens_per_second, 1),
        "padding": round(journal.padding, 4),
        "weights": config["weights"],
        "model_dir": str(run.path / "model"),
        "git": _git_commit(),
        "config_hash": config_hash(config),
        "data_fingerprint": corpus.fingerprint,
        "tokenizer_hash": tokenizer.hash,
    }
    results = run.write_results(facts, {split: (scores, loss) for split, (scores, loss, _) in module.results.items()})
    say(_summary(run.path, results, example=data.datasets["valid"]["src"][0]))


def _summary(folder: Path, results: Mapping[str, Any], *, example: str) -> str:
    """What a person wants to know at the end, and what to try next."""
    lines = [
        f"Trained {results['params']:,} parameters for {results['steps']} steps ({results['epochs']} epochs) in "
        f"{results['train_seconds']:.0f} s, {results['tokens_per_second']:,.0f} tokens/s."
    ]
    for name, scores in {"valid": results["valid"], **results["tests"]}.items():
        lines.append(
            f"  {name:<20} BLEU {scores['bleu']:6.2f}   chrF {scores['chrf']:6.2f}   loss {scores['loss']:.3f}"
        )
    lines += [
        f"  ({results['valid']['bleu_signature']})",
        f"Results:  {folder / 'results.json'}, translations beside it.",
        f"Try next: echo {shlex.quote(example)} | {Path(sys.executable).parent / 'heed'} translate --model {folder}",
    ]
    return "\n".join(lines)


def say(text: str) -> None:
    """Tell the person at the terminal, once however many processes there are."""
    if rank_zero_only.rank in (None, 0):
        print(text, file=sys.stderr, flush=True)


def rehearse(
    architecture: ModelConfig, optimizer: Callable[..., Any], schedule: Callable[[int], float], weights: str
) -> None:
    """Build the model without memory and try the parts on it, so that mistakes surface before any data is read."""
    if weights not in WEIGHTS:
        raise HeedError(f"weights={weights} is unknown: choose one of {', '.join(WEIGHTS)}.")
    with torch.device("meta"):
        model = architecture.build(src_vocab=8, tgt_vocab=8, joint=True)
    optimizer([{"params": list(model.parameters())}])
    schedule(0)


def config_hash(config: Mapping[str, Any]) -> str:
    """A digest of everything in the config that changes what is computed."""
    kept = {key: value for key, value in config.items() if key not in CONTROL}
    kept["limits"] = {key: config["trainer"].get(key) for key in ("max_steps", "max_epochs", "max_time")}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:16]


def chosen_weights(kind: str, callbacks: list[Callback]) -> dict[str, torch.Tensor]:
    """The model's weights that ``weights=`` asks for: of one checkpoint, or the mean of several (in float64)."""
    savers = {str(c.monitor): c for c in callbacks if isinstance(c, ModelCheckpoint)}
    best, last = savers[BLEU], savers["step"]
    paths = {
        "best": [best.best_model_path],
        "last": [last.best_model_path],
        "average_best_k": sorted(best.best_k_models),
        "average_last_k": sorted(last.best_k_models),
    }[kind]
    states = [_model_weights(Path(path)) for path in paths]
    return {
        name: torch.stack([state[name].double() for state in states]).mean(0).to(tensor.dtype)
        for name, tensor in states[0].items()
    }


WEIGHTS = ("best", "last", "average_best_k", "average_last_k")


def _model_weights(path: Path) -> dict[str, torch.Tensor]:
    state = torch.load(path, map_location="cpu", weights_only=True)["state_dict"]
    return {name.removeprefix("model."): tensor for name, tensor in state.items()}


def _git_commit() -> str | None:
    """The commit of the code, marked where the working tree differs from it; None outside a repository."""
    here = Path(__file__).parent
    command = ("git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
