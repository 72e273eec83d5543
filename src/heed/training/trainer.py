"""Build the Lightning Trainer with heed's defaults."""

import inspect
import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import lightning as L
import torch
from annotated_types import Interval
from lightning.fabric.plugins.environments import SLURMEnvironment, TorchElasticEnvironment
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import Logger
from lightning.pytorch.plugins.precision import MixedPrecision

from heed.compat import call_after_closure, connected_strategy
from heed.errors import HeedError
from heed.kernels.choice import has_fast_bf16_matmul, keep_freed_memory
from heed.options import AtLeast1, Duration, in_heed, raise_problems, suggest
from heed.runs.checkpoints import Selection
from heed.training.callbacks.checkpoints import AtomicCheckpointIO, Checkpoints
from heed.training.callbacks.ema import EMA
from heed.training.callbacks.metrics import DecodingProgress, MetricsLogger
from heed.training.callbacks.stopping import FinalValidation, StopOnSignal

Precision = Literal["auto", "32-true", "bf16-mixed", "16-mixed", 32]
"""Precisions of training; 32 is 32-true. The weights are fp32 in all of them."""

CheckpointCount = Annotated[int, Interval(ge=-1)]
"""A number of checkpoints; -1: all."""

IGNORED_WARNINGS = (
    # Training data is a stream with its own cursor, read in the main process.
    ".*does not have many workers.*",
    ".*IterableDataset.*__len__.*",
    ".*treespec, LeafSpec.*",
    # The alignment error rate is measured by one process, over the sentences of all.
    ".*valid/aer.*sync_dist=True.*",
    # Expected with ckpt_path=, which reads from another run's folder, and with resume=true.
    ".*dirpath has changed.*",
    ".*exists and is not empty.*",
)


def build_trainer(
    *,
    folder: Path,
    selection: Selection,
    callbacks: Iterable[Callback],
    loggers: list[Logger],
    accelerator: str,
    devices: int | str | list[int],
    num_nodes: AtLeast1,
    strategy: str,
    precision: Precision,
    max_steps: AtLeast1 | None,
    max_epochs: AtLeast1 | None,
    max_time: Duration | None,
    validate_every: AtLeast1,
    log_every: AtLeast1,
    keep_best: CheckpointCount,
    keep_last: Literal[-1] | AtLeast1,
    **lightning: Any,
) -> L.Trainer:
    """Build the trainer of one run. conf/trainer/auto.yaml explains its options.

    Args:
        folder: of the run; callbacks find it as ``trainer.default_root_dir``.
        selection: compares validations, for the best checkpoints and for early stopping.
        callbacks: the optional ones (`build_callbacks` adds those of every run).
        max_epochs: counted by the data module. Lightning sees one long epoch (data/datamodule.py).
        lightning: further arguments of `lightning.Trainer`.

    Raises:
        HeedError: if Lightning rejects an argument that `check_machine` has not seen, with its reason.
    """
    machine, fp16 = _machine(accelerator, devices, num_nodes, strategy, precision)
    on_cpu = machine["accelerator"] == "cpu"
    if on_cpu:
        keep_freed_memory()
    else:
        choose_gpu_kernels()
    plugins: list[Any] = [AtomicCheckpointIO()]
    if SLURMEnvironment.detect() and not TorchElasticEnvironment.detect():
        # Otherwise Lightning saves in the middle of a step at SIGUSR1 and requeues the job.
        plugins.append(SLURMEnvironment(auto_requeue=False))
    if fp16:
        plugins.append(Fp16Precision("cpu" if on_cpu else "cuda"))
    checkpoints = Checkpoints(folder / "checkpoints", selection=selection, keep_best=keep_best, keep_last=keep_last)
    with _explaining_rejections():
        return L.Trainer(
            **machine,
            default_root_dir=folder,
            max_epochs=max_epochs or -1,
            max_steps=max_steps or -1,
            max_time=max_time,
            val_check_interval=validate_every,
            check_val_every_n_epoch=None,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            log_every_n_steps=log_every,
            logger=loggers or False,
            callbacks=build_callbacks(callbacks, checkpoints),
            plugins=plugins,
            **lightning,
        )


def check_machine(options: Mapping[str, Any], cell: str | None) -> int:
    """Return with how many processes a trainer with these options trains, and silence Lightning's notices.

    ``cell`` is that of an RNN.

    Raises:
        HeedError: if this machine lacks the devices, Lightning or heed refuses an option, and for an LSTM in fp16 on a
            CPU, which oneDNN lacks.
    """
    for message in IGNORED_WARNINGS:
        warnings.filterwarnings("ignore", message)
    # MetricsLogger reports the progress; Lightning's own notices are about Lightning.
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    logging.getLogger("lightning.pytorch.profilers").setLevel(logging.INFO)  # the report of +trainer.profiler=simple
    own = inspect.signature(build_trainer).parameters
    raise_problems(
        _unusable_options({name: value for name, value in options.items() if name not in own and name[0] != "_"})
    )
    accelerator, strategy = options["accelerator"], options["strategy"]
    if accelerator in ("gpu", "cuda") and not (torch.cuda.is_available() or torch.backends.mps.is_available()):
        raise HeedError(
            f"trainer.accelerator={accelerator}: no GPU is visible to torch {torch.__version__}. Choose trainer=cpu, "
            "or install a torch for your GPU."
        )
    if strategy.startswith(("fsdp", "deepspeed")):
        raise HeedError(
            f"trainer.strategy={strategy} is not supported: heed's models fit on one device, so use "
            "trainer.strategy=ddp."
        )
    names = ("accelerator", "devices", "num_nodes", "strategy", "precision")
    machine, fp16 = _machine(*(options[name] for name in names))
    with _explaining_rejections():
        found = connected_strategy(**machine)
    if fp16 and (found.root_device.type, cell) == ("cpu", "lstm"):
        raise HeedError(
            "trainer.precision=16-mixed cannot train model.cell=lstm on a CPU: choose trainer.precision=bf16-mixed or "
            "32-true, or model.cell=gru."
        )
    return int(getattr(found, "world_size", 1))


def _machine(
    accelerator: str, devices: Any, num_nodes: int, strategy: str, precision: Precision
) -> tuple[dict[str, Any], bool]:
    """Return Lightning's arguments for these options on this machine, and whether training needs `Fp16Precision`."""
    if accelerator == "auto" and not torch.cuda.is_available():
        accelerator = "cpu"
    devices = 1 if (accelerator, devices) == ("cpu", "auto") else devices
    flag = resolve_precision(precision, accelerator)
    machine = {"accelerator": accelerator, "devices": devices, "num_nodes": num_nodes, "strategy": strategy}
    fp16 = flag == "16-mixed"
    return machine | {"precision": None if fp16 else flag}, fp16


@contextmanager
def _explaining_rejections() -> Iterator[None]:
    try:
        yield
    except (MisconfigurationException, TypeError, ValueError) as error:
        raise HeedError(f"Lightning rejects these trainer options: {error}") from error


def _unusable_options(lightning: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each argument that `lightning.Trainer` lacks, or that has another meaning in heed's loop."""
    known = inspect.signature(L.Trainer).parameters
    own = [name for name in inspect.signature(build_trainer).parameters if name != "lightning"]
    for name in lightning:
        if name not in known or (in_heed(name) and f"+trainer.{name}" not in in_heed(name)):
            yield f"trainer.{name} is unknown to heed{suggest(name, own, 'trainer.')}."


def choose_gpu_kernels() -> None:
    """Choose, for this process, the kernels with which training is fastest on a GPU."""
    # Products of fp32 numbers in TF32, which has the exponents of fp32 and 10 bits of mantissa.
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    # cuDNN's attention spends 0.1 s and more on a plan for each new shape, and most batches have a new shape.
    torch.backends.cuda.enable_cudnn_sdp(False)


def build_callbacks(optional: Iterable[Callback], checkpoints: Checkpoints) -> list[Callback]:
    """Add the callbacks of every run to the optional ones. Lightning calls them in this order, `Checkpoints` last."""
    return [
        MetricsLogger(),
        DecodingProgress(),
        FinalValidation(),
        checkpoints,
        # EMA after the callbacks that use the averaged weights when a validation ends.
        *sorted(optional, key=lambda callback: isinstance(callback, EMA)),
        # After all callbacks whose state changes with a step, because it saves a checkpoint.
        StopOnSignal(checkpoints),
    ]


def resolve_precision(precision: Precision, accelerator: str) -> Any:
    """Return Lightning's precision flag; "auto" is bf16 on GPUs that have it and on CPUs that are faster in it."""
    if precision != "auto":
        return "32-true" if precision == 32 else precision
    on_gpu = accelerator != "cpu" and torch.cuda.is_available()
    is_fast = torch.cuda.is_bf16_supported(including_emulation=False) if on_gpu else has_fast_bf16_matmul()
    return "bf16-mixed" if is_fast else "32-true"


class Fp16Precision(MixedPrecision):
    """Mixed precision in fp16 for a module that unscales its gradients itself, in order to clip them.

    Lightning's MixedPrecision would unscale them a second time, which torch refuses.
    """

    def __init__(self, device: str) -> None:
        super().__init__("16-mixed", device, torch.amp.GradScaler(device))

    def optimizer_step(
        self, optimizer: Any, model: L.LightningModule, closure: Callable[[], Any], **options: Any
    ) -> Any:
        closure()
        call_after_closure(self, model, optimizer)
        step_output = self.scaler.step(optimizer, **options)
        self.scaler.update()
        return step_output
