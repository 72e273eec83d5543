"""The folder a run leaves behind: its config, results, translations and model."""

import hashlib
import json
import math
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import lightning as L
import torch
import yaml
from hydra.core.hydra_config import HydraConfig
from lightning.pytorch.utilities import rank_zero_only
from omegaconf import read_write

from heed.data.cache import blocks
from heed.data.datamodule import TranslationData
from heed.errors import HeedError
from heed.evaluation.buckets import WORD_COUNTS, count_words, write_counts
from heed.evaluation.comet import Comet
from heed.evaluation.scores import Scores
from heed.evaluation.words import casefolded_words
from heed.files import replacing
from heed.inference import model_folder
from heed.launch.processes import agree_on_folder, detect_launch, is_first_process
from heed.models.seq2seq import ModelConfig, TrainableSeq2Seq
from heed.runs.averaging import checkpoint_weights, mean
from heed.runs.claim import CONFIG, LOCK, RESULTS, create, locked, newest_unfinished
from heed.runs.selection import SIGN, Metric, Selection
from heed.training.callbacks.alignment_error_rate import AlignmentErrorRate
from heed.training.callbacks.build import MetricsLogger, planned_steps
from heed.training.callbacks.checkpoints import Checkpoints, checkpoint_step, find_checkpoints
from heed.training.callbacks.signals import end_other_processes
from heed.training.loggers import log_results
from heed.training.module import TranslationModule
from heed.training.nonfinite import DivergedError

if TYPE_CHECKING:
    from datasets import Dataset

CONTROL = (
    "resume", "ckpt_path", "trainer", "callbacks", "logger", "debug", "experiment", "cache_dir", "test",
    "max_skipped_steps",
)  # fmt: skip
"""What may differ between a run and its resumption, and does not change what is computed in a step."""


class RunFolder:
    """``runs/NAME/TIME``."""

    def __init__(self, path: Path, config: dict[str, Any]) -> None:
        self.path = path
        self.config = config
        self.checkpoints = path / "checkpoints"

    def open(self, *, write: bool) -> Path | None:
        """Check that the run can begin as its config says, and return the checkpoint that it begins with, if any.

        Args:
            write: save the config. One process of a run does.
        """
        for other in ("resume", "init_from"):
            if self.config["ckpt_path"] and self.config[other]:
                raise HeedError(f"ckpt_path and {other} contradict each other: a run has one beginning.")
        file = self.path / CONFIG
        if self.config["resume"]:
            before = _read_config(file)
            changed = [
                key
                for key, value in self.config.items()
                if key not in CONTROL and _without_cache(value) != _without_cache(before.get(key))
            ]
            if changed:
                raise HeedError(
                    f"resume=true goes on with {self.path}, but {', '.join(changed)} differ from its config.yaml. "
                    "Give the same settings, or start a new run from its checkpoint with ckpt_path=."
                )
        checkpoint = self.checkpoint if self.config["resume"] else self.config["ckpt_path"]
        if checkpoint and not Path(checkpoint).is_file():
            raise HeedError(f"There is no checkpoint {checkpoint} (relative paths start at {Path.cwd()}).")
        if write:
            with replacing(file) as partial:
                config = yaml.safe_dump(self.config, allow_unicode=True, sort_keys=False)
                partial.write_text(config, encoding="utf-8")
        return Path(checkpoint) if checkpoint else None

    @property
    def checkpoint(self) -> Path | None:
        """The latest one, from which the run can go on."""
        return max(self.checkpoints.glob("last-*.ckpt"), key=checkpoint_step, default=None)

    def write_translations(self, split: str, data: "Dataset", translations: list[str]) -> None:
        """``translations/<split>.{src,ref,hyp}``, one line each, and what is known of the sentences."""
        folder = self.path / "translations"
        folder.mkdir(exist_ok=True)
        for suffix, lines in (("src", data["src"]), ("ref", data["tgt"]), ("hyp", translations)):
            _write_lines(folder / f"{split}.{suffix}", lines)
        if "meta" in data.column_names:
            _write_lines(folder / f"{split}.meta.jsonl", data["meta"])

    def write_word_counts(self, train: "Dataset", evaluated: "Iterable[Dataset]") -> None:
        """``translations/word_counts.tsv``: how often training has the source words of the evaluated sentences."""
        vocabulary = {word for split in evaluated for src in split["src"] for word in casefolded_words(src)}
        # A million pairs are counted in seconds, and say of every word whether it is rare.
        pairs = min(len(train), 1_000_000)
        counted = train if pairs == len(train) else train.select(i * len(train) // pairs for i in range(pairs))
        counts = count_words((line for src, _ in blocks(counted) for line in src), vocabulary)
        write_counts(self.path / "translations" / WORD_COUNTS, counts, pairs=pairs, of=len(train))

    def write_results(self, facts: Mapping[str, Any], scored: Mapping[str, tuple[Scores, float]]) -> dict[str, Any]:
        """``results.json``: what was trained, how long, and how well. ``scored``: per split its scores and loss.

        A loss that is not finite is null: JSON has no such numbers.
        """
        tests = {
            name: {**asdict(scores), "loss": loss if math.isfinite(loss) else None}
            for name, (scores, loss) in scored.items()
        }
        valid = tests.pop("valid")
        results = {**facts, "valid": valid, "test": next(iter(tests.values()), None), "tests": tests}
        # Its presence says that the run is finished.
        with replacing(self.path / RESULTS) as partial:
            partial.write_text(
                json.dumps(results, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8"
            )
        return results


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    with replacing(path) as partial:
        partial.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _without_cache(settings: Any) -> Any:
    """A part's settings without the place of its cache, which changes nothing else."""
    if isinstance(settings, dict):
        return {key: value for key, value in settings.items() if key != "cache_dir"}
    return settings


def _read_config(file: Path) -> dict[str, Any]:
    try:
        config = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise HeedError(f"{file} cannot be read, and it tells what to resume: {_first_line(error)}") from error
    if not isinstance(config, dict):
        raise HeedError(f"{file} is not the config of a run.")
    return config


@contextmanager
def claimed_folder(cfg: Any) -> Iterator[Path]:
    """Claim the run's folder for the block; when the block fails, say how the run can go on.

    The folder is a new one in ``runs/NAME``, with ``resume=true`` the newest unfinished one there, or the one that
    ``hydra.run.dir`` names. The first process claims and locks it; all processes of the run get the same one.

    Args:
        cfg: Hydra's DictConfig, which beartype cannot check.

    Raises:
        HeedError: if another process trains in the folder, or it cannot be started or resumed in.
    """
    job, launch = HydraConfig.get(), detect_launch()
    given, home = Path(job.runtime.output_dir), Path("runs", cfg.name).absolute()
    first = is_first_process(launch)
    with ExitStack() as held:

        def claim() -> Path:
            if given != home:
                folder = given
            elif cfg.resume:
                folder = newest_unfinished(home)
            else:
                folder = create(home, f"{datetime.now():%Y-%m-%d_%H-%M-%S}")
            held.enter_context(locked(folder))
            _check_state(folder, resume=cfg.resume)
            return folder

        try:
            # Lightning names the folder to the processes it starts itself.
            folder = agree_on_folder(launch, claim) if launch or first else given
            with read_write(job):
                job.run.dir = job.runtime.output_dir = str(folder)
            try:
                yield folder
            except BaseException as error:
                if first:
                    end_other_processes()
                    advice = _how_to_go_on(folder)
                    if advice and not isinstance(error, DivergedError):  # which says it itself
                        say(advice)
                raise
        finally:
            with suppress(OSError):  # not empty
                home.rmdir()


def _check_state(folder: Path, *, resume: bool) -> None:
    """Refuse to resume a finished run, and to start one where another has been trained."""
    if resume and (folder / RESULTS).exists():
        raise HeedError(
            f"The run in {folder} is finished. To train its model further, start a new run with ckpt_path= and one of "
            "its checkpoints; leave out resume=true."
        )
    if not resume and ((folder / RESULTS).exists() or RunFolder(folder, {}).checkpoint):
        raise HeedError(
            f"{folder} holds a run already: add resume=true to go on with it, or name another folder with "
            "hydra.run.dir=DIR."
        )


def _how_to_go_on(folder: Path) -> str:
    """What is left of a run that ended early, and the command that resumes it; remove a folder without any use."""
    if checkpoint := RunFolder(folder, {}).checkpoint:
        # A run that began with a checkpoint goes on with its own.
        ours = ("resume", "ckpt_path", "hydra.run.dir")
        told = [word for word in sys.argv if word.partition("=")[0] not in ours]
        # By name, for a newer run may have the same name by then.
        command = shlex.join([Path(sys.executable).name, *told, f"hydra.run.dir={folder}", "resume=true"])
        return f"The last checkpoint is {checkpoint}. To go on: {command}"
    for file in (CONFIG, "wandb/id", LOCK):
        if not (folder / "metrics.csv").exists():
            (folder / file).unlink(missing_ok=True)
    for emptied in (folder / "wandb", folder):
        with suppress(OSError):
            emptied.rmdir()
    return f"{folder} holds no checkpoint to go on with." if folder.exists() else ""


def finish(run: RunFolder, trainer: L.Trainer, module: TranslationModule) -> None:
    """Leave behind what was learned: the model's folder, translations, ``results.json``, and a word on the screen."""
    data, config, model = module.data, run.config, module.model
    corpus, tokenizer = data.corpus, module.tokenizer
    journal = next(callback for callback in trainer.callbacks if isinstance(callback, MetricsLogger))
    checkpoints = find_checkpoints(trainer.callbacks)
    used = [checkpoint_step(path) for path in choose_checkpoints(config["weights"], checkpoints)]
    for split, (_, _, translations) in module.results.items():
        run.write_translations(split, data.datasets[split], translations)
    run.write_word_counts(data.datasets["train"], [data.datasets[split] for split in module.results])
    languages = {"src_lang": corpus.src_lang, "tgt_lang": corpus.tgt_lang}
    search = {key: value for key, value in config["search"].items() if key != "_target_"}
    alignment = next((c.results for c in trainer.callbacks if isinstance(c, AlignmentErrorRate)), None)
    reading = {"alignment": alignment["extraction"]} if alignment else {}
    model_folder.save(run.path / "model", model, tokenizer, extra={**languages, "search": search, **reading})
    facts = {
        "name": config["name"],
        "model": model.config.family,
        "data": corpus.name,
        **languages,
        "seed": config["seed"],
        "params": sum(parameter.numel() for parameter in model.parameters()),
        "steps": trainer.global_step,
        "epochs": round(journal.totals["tgt_tokens"] / data.train_tgt_tokens, 2),
        "tokens": journal.totals["src_tokens"] + journal.totals["tgt_tokens"],
        "train_seconds": round(journal.train_seconds, 1),
        "tokens_per_second": round(journal.tokens_per_second, 1),
        "padding": round(journal.padding, 4),
        "device": f"{trainer.world_size} × {trainer.strategy.root_device.type}, {trainer.precision}",
        "decode_seconds": {split: round(seconds, 2) for split, seconds in module.decode_seconds.items()},
        "search": search,
        "weights": config["weights"],
        "select": checkpoints.selection.metric,
        "selected_step": used[-1],
        "averaged_steps": used if len(used) > 1 else None,
        "skipped_steps": module.skipped.total,
        "alignment": alignment,
        "model_dir": str(run.path / "model"),
        "git": _git_commit(),
        "config_hash": config_hash(config),
        "data_fingerprint": corpus.fingerprint,
        "tokenizer_hash": tokenizer.hash,
    }
    results = run.write_results(facts, {split: (scores, loss) for split, (scores, loss, _) in module.results.items()})
    log_results(trainer.loggers, results)
    say(_summary(run.path, results, example=data.datasets["valid"]["src"][0]))


def announcement(folder: Path, trainer: L.Trainer, module: TranslationModule, data: TranslationData) -> str:
    """What is about to happen, before it costs anything: data, model, machine, and how far it will go."""
    corpus, tokenizer, model = data.corpus, module.tokenizer, module.model
    sizes = ", ".join(f"{name} {len(split):,}" for name, split in data.datasets.items())
    subwords = f"{tokenizer.src_vocab:,}" if tokenizer.joint else f"{tokenizer.src_vocab:,} + {tokenizer.tgt_vocab:,}"
    steps = planned_steps(trainer, data)
    per_epoch = data.train_tgt_tokens / data.planner.batch_tokens
    return "\n".join(
        (
            f"Data:     {corpus.name}, {corpus.src_lang} → {corpus.tgt_lang}; pairs: {sizes}; {subwords} subwords",
            f"Model:    {model.config.family}, {sum(p.numel() for p in model.parameters()):,} parameters, on "
            f"{trainer.world_size} × {trainer.strategy.root_device.type} in {trainer.precision}",
            f"Training: {f'at most {steps:,} steps' if steps else 'no limit of steps'}, {per_epoch:,.0f} an epoch, "
            f"{data.planner.batch_tokens:,} target tokens each, validation every {trainer.val_check_interval:,}",
            *idle_devices(trainer.world_size, data),
            f"Folder:   {folder}",
        )
    )


def idle_devices(devices: int, data: TranslationData) -> list[str]:
    """A line of advice where a step is cut into fewer micro-batches than there are devices."""
    planner = data.planner
    portions = math.ceil(data.step_tokens / planner.device_tokens)
    if planner.auto or portions >= devices:
        return []
    return [
        f"Devices:  {devices - portions} of {devices} will be idle, for a step's {data.step_tokens:,.0f} source and "
        f"target tokens fit into {portions} × batching.device_tokens={planner.device_tokens}; "
        f"try {math.floor(data.step_tokens / (devices - 0.5))} (another cut rounds otherwise, and drops other states)."
    ]


def _summary(folder: Path, results: Mapping[str, Any], *, example: str) -> str:
    """What a person wants to know at the end, and what to try next."""
    lines = [
        f"Trained {results['params']:,} parameters for {results['steps']} steps ({results['epochs']} epochs) in "
        f"{results['train_seconds']:.0f} s, {results['tokens_per_second']:,.0f} tokens/s."
    ]
    if steps := results["averaged_steps"]:
        lines.append(f"Weights:  the mean of steps {', '.join(f'{step:,}' for step in steps)}.")
    else:
        by = f", by valid {results['select']}" if results["weights"] in ("best", "ema") else ""
        lines.append(f"Weights:  {results['weights']}, of step {results['selected_step']:,}{by}.")
    if skipped := results["skipped_steps"]:
        lines.append(f"Skipped:  {skipped:,} steps, whose loss or gradient was not finite.")
    scored = {"valid": results["valid"], **results["tests"]}
    for name, scores in scored.items():
        loss = "not finite" if scores["loss"] is None else f"{scores['loss']:.3f}"
        lines.append(f"  {name:<20} BLEU {scores['bleu']:6.2f}   chrF {scores['chrf']:6.2f}   loss {loss}")
    lines.append(f"  ({results['valid']['bleu_signature']})")
    for reason in dict.fromkeys(scores["not_comparable"] for scores in scored.values() if scores["not_comparable"]):
        splits = ", ".join(name for name, scores in scored.items() if scores["not_comparable"] == reason)
        lines.append(f"  {splits}: not comparable with published scores: {reason}")
    lines += [
        f"Results:  {folder / 'results.json'}, translations beside it.",
        f"Try next: echo {shlex.quote(example)} | {Path(sys.executable).parent / 'heed'} translate --model {folder}",
    ]
    return "\n".join(lines)


def say(text: str) -> None:
    """Tell the person at the terminal, once however many processes there are."""
    if rank_zero_only.rank in (None, 0):
        print(text, file=sys.stderr, flush=True)


def rehearse(
    architecture: ModelConfig,
    optimizer: Callable[..., Any],
    schedule: Callable[[int], float],
    weights: str,
    callbacks: Mapping[str, Any],
) -> None:
    """Build the model without memory and try the parts on it, so that mistakes surface before any data is read."""
    _see_that_weights_will_be_there(weights, callbacks)
    model = _without_memory(architecture, src_vocab=8, tgt_vocab=8, joint=True)
    try:
        optimizer([{"params": list(model.parameters())}])
    except (TypeError, ValueError) as error:
        raise HeedError(f"optimizer: {error}") from error
    schedule(0)


def build_model(architecture: ModelConfig, *, src_vocab: int, tgt_vocab: int, joint: bool) -> TrainableSeq2Seq:
    """Build the model with random weights, unless it is larger than this machine's memory.

    Raises:
        HeedError: if it is.
    """
    model = _without_memory(architecture, src_vocab=src_vocab, tgt_vocab=tgt_vocab, joint=joint)
    needed = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > memory:
        raise HeedError(
            f"This model's weights need {needed / 2**30:,.0f} GiB, and this machine has {memory / 2**30:,.0f}: choose "
            "smaller sizes (model.*) or a smaller vocabulary (tokenizer.vocab_size)."
        )
    return architecture.build(src_vocab=src_vocab, tgt_vocab=tgt_vocab, joint=joint)


def _without_memory(architecture: ModelConfig, *, src_vocab: int, tgt_vocab: int, joint: bool) -> TrainableSeq2Seq:
    try:
        with torch.device("meta"):
            return architecture.build(src_vocab=src_vocab, tgt_vocab=tgt_vocab, joint=joint)
    except (RuntimeError, OverflowError, MemoryError) as error:
        raise HeedError(
            f"This model is too large to be computed ({_first_line(error)}): choose smaller sizes (model.*)."
        ) from error


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _see_that_weights_will_be_there(weights: str, callbacks: Mapping[str, Any]) -> None:
    """Refuse ``weights=`` where the settings of the callbacks will not keep them."""
    if weights not in WEIGHTS:
        raise HeedError(f"weights={weights} is unknown: choose one of {', '.join(WEIGHTS)}.")
    ema = callbacks["ema"]
    if weights == "ema" and ema is None:
        raise HeedError("weights=ema has no average to take: set callbacks.ema to its decay, for example 0.999.")
    if weights in ("best", "average_best_k") and ema is not None:
        raise HeedError(
            f"callbacks.ema={ema} chooses checkpoints by their averaged weights, which weights={weights} would leave "
            "out: choose weights=ema, or callbacks.ema=null."
        )
    knob = "keep_last" if weights in ("last", "average_last_k") else "keep_best"
    if callbacks[knob] == 0:
        raise HeedError(f"weights={weights} needs a checkpoint, and callbacks.{knob}=0 keeps none: choose 1 or more.")
    if callbacks[knob] == 1 and weights.startswith("average"):
        raise HeedError(
            f"weights={weights} averages callbacks.{knob} checkpoints, and it is 1: choose more, 5 for example."
        )


@contextmanager
def explaining_damage(checkpoint: Path | None, module: TranslationModule) -> Iterator[None]:
    """Turn an error met while a checkpoint is restored into a HeedError that names the checkpoint.

    A checkpoint is a deep structure of this program, Lightning and torch, and any part of it may be missing or wrong.
    """
    try:
        yield
    except HeedError:
        raise
    except Exception as error:
        if checkpoint is None or module.training_began:
            raise
        raise HeedError(
            f"{checkpoint} cannot be resumed from: it is damaged, or another version of heed or its libraries wrote it "
            f"({type(error).__name__}: {_first_line(error)}). Name another checkpoint with ckpt_path=."
        ) from error


def load_selection(metric: str) -> tuple[Selection, Comet | None]:
    """How validations are compared (``select=``), and the COMET model that this needs, if any.

    Where COMET or its weights are absent, the reason is printed and BLEU selects.
    """
    if metric not in SIGN:
        raise HeedError(f"select={metric} is unknown: choose one of {', '.join(SIGN)}.")
    if metric == "comet":
        try:
            return Selection("comet"), Comet(COMET_MODEL)
        except HeedError as error:
            say(f"select=comet is skipped, and BLEU selects: {error}")
            return Selection("bleu"), None
    return Selection(cast(Metric, metric)), None


COMET_MODEL = "Unbabel/wmt22-comet-da"


def config_hash(config: Mapping[str, Any]) -> str:
    """A digest of everything in the config that changes what is computed."""
    kept = {key: _without_cache(value) for key, value in config.items() if key not in CONTROL}
    kept["limits"] = {key: config["trainer"].get(key) for key in ("max_steps", "max_epochs", "max_time")}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:16]


def choose_checkpoints(kind: str, checkpoints: Checkpoints) -> list[Path]:
    """The checkpoints whose weights ``weights=`` asks for: one, or several to be averaged."""
    paths = {
        "best": checkpoints.best[:1],
        "last": checkpoints.last[:1],
        "ema": checkpoints.best[:1],
        "average_best_k": sorted(checkpoints.best),
        "average_last_k": sorted(checkpoints.last),
    }[kind]
    if not paths:
        raise HeedError(f"weights={kind} finds no such checkpoint in {checkpoints.folder}: was it removed meanwhile?")
    return paths


def chosen_weights(kind: str, checkpoints: Checkpoints) -> dict[str, torch.Tensor]:
    """The model's weights that ``weights=`` asks for: of one checkpoint, or the mean of several."""
    return mean(checkpoint_weights(path, ema=kind == "ema") for path in choose_checkpoints(kind, checkpoints))


WEIGHTS = ("best", "last", "ema", "average_best_k", "average_last_k")


def _git_commit() -> str | None:
    """The commit of the code, marked where the working tree differs from it; None outside a repository."""
    here = Path(__file__).parent
    command = ("git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
