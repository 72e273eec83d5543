"""What only some operating systems have, and private interfaces of libraries, in one place, sorted by library.

Functions for libraries name the library and the version they were written for; tests/test_compat.py fails when the
library changes. Libraries are imported inside the functions and by name, so that importing this module loads none of
them.
"""

import io
import os
import platform
import sys
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from subprocess import Popen
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

# ---- operating systems

WINDOWS = os.name == "nt"


def print_any_character() -> None:
    """Let this process print any character, as ``\\u2192`` where the encoding of the locale lacks it.

    Windows has UTF-8 for terminals only, and cp1252 for pipes and files: print UTF-8 there.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower().replace("-", "") != "utf8":
            stream.reconfigure(encoding="utf-8" if WINDOWS else None, errors="backslashreplace")


def usable_cores() -> int:
    """Return the number of CPU cores that this process may use; without Linux, the number that the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def replace(source: Path, target: Path) -> None:
    """Rename a file or folder to ``target``, which it replaces.

    Windows refuses this while another program, such as a virus scanner, has one of them open: try again for two
    seconds.
    """
    deadline = time.monotonic() + 2
    while True:
        try:
            source.replace(target)
            return
        except PermissionError:
            if not WINDOWS or time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def is_running(process: int) -> bool:
    """Return whether there is a process with this number. On Windows, where a signal would end it: always True."""
    if WINDOWS:
        return True
    try:
        with suppress(PermissionError):  # another user's
            os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@cache
def process_space() -> str:
    """Return a digest of the machine and, on Linux, the container: process numbers are unique within it."""
    container = Path("/proc/self/ns/pid")
    facts = f"{platform.node()} {container.readlink() if container.exists() else ''}"
    return f"{zlib.crc32(facts.encode()):08x}"


def sync_file(path: Path) -> None:
    """Wait until the disk has the content of a file, so that it survives a power cut."""
    with path.open("r+b") as file:  # Windows syncs only files that are open for writing
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Wait until the disk has the names of the files in a folder. Windows cannot open folders: there, do nothing."""
    if WINDOWS:
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ---- hydra


def hydra_flags(words: Sequence[str]) -> tuple[Any, list[str]]:
    """Return the parsed flags of a command line, its other words as ``overrides``, and unknown flags, for Hydra 1.3."""
    parser = import_module("hydra._internal.utils").get_args_parser()
    parser.exit_on_error = False  # raise an ArgumentError
    return parser.parse_known_intermixed_args(list(words))


def hydra_jobs(overrides: Sequence[str]) -> list[list[str]]:
    """Return the overrides of each job of a grid, for Hydra 1.3."""
    parser = import_module("hydra.core.override_parser.overrides_parser").OverridesParser
    sweeper = import_module("hydra._internal.core_plugins.basic_sweeper").BasicSweeper
    parsed = parser.create().parse_overrides(list(overrides))
    return [words for batch in sweeper.split_arguments(parsed, None) for words in batch]


def hydra_job_error(job_return: Any) -> BaseException:
    """Return the exception of a failed job. Its public property prints a line first. hydra-core 1.3: JobReturn."""
    return job_return._return_value


# ---- datasets


def dataset_digest(dataset: Any) -> str:
    """Return the digest of a dataset's files and of what was done to them. datasets 5.2: ``Dataset._fingerprint``."""
    return dataset._fingerprint


# ---- Lightning


def call_after_closure(precision: Any, module: Any, optimizer: "Optimizer") -> None:
    """Run the hooks between the backward pass and an optimizer step (Lightning 2.6: ``Precision._after_closure``)."""
    precision._after_closure(module, optimizer)


def fit_progress(trainer: Any) -> dict[str, Any]:
    """The counters of the training loop as checkpoints store them (Lightning 2.6: ``Trainer.fit_loop``)."""
    return trainer.fit_loop.state_dict()


def connected_strategy(**options: Any) -> Any:
    """Return the strategy that Lightning chooses for devices (Lightning 2.6: ``_AcceleratorConnector``)."""
    name = "lightning.pytorch.trainer.connectors.accelerator_connector"
    return import_module(name)._AcceleratorConnector(**options, use_distributed_sampler=False).strategy


def take_child_processes() -> list[Popen[bytes]]:
    """Remove and return the processes that Lightning's launcher watches (Lightning 2.6: ``_ChildProcessObserver``).

    Lightning kills this process when one that it watches fails.
    """
    taken: list[Popen[bytes]] = []
    for thread in threading.enumerate():
        if thread.name == "child-process-observer":
            watched: list[Popen[bytes]] = thread._child_processes  # type: ignore[attr-defined]
            taken += watched
            watched.clear()
    return taken


def skip_sigterm_exchange(trainer: Any) -> None:
    """Leave out an exchange before every step, which waits for the device (Lightning 2.6: ``_TrainingEpochLoop``)."""
    trainer.fit_loop.epoch_loop._broadcast_sigterm_tensor = lambda: None


def validate_before_first_step(trainer: Any) -> None:
    """Run a validation in the hook ``on_train_start``, as lightning 2.6 runs them between steps."""
    trainer.validating = True
    trainer.fit_loop.epoch_loop.val_loop.run()
    trainer.training = True


def uncount_started_batch(trainer: Any) -> None:
    """Undo the count of a started batch that is not trained on (Lightning 2.6: ``epoch_loop.batch_progress``)."""
    progress = trainer.fit_loop.epoch_loop.batch_progress
    progress.total.ready -= 1
    progress.current.ready -= 1


# ---- optuna


def optuna_heartbeats(trial_id: int, storage: Any) -> AbstractContextManager[None]:
    """Return a context in which a thread records heartbeats of a trial. Optuna 5 does so in Study.optimize only."""
    heartbeats = import_module("optuna.storages._heartbeat")
    return heartbeats.get_heartbeat_thread(trial_id, storage)


# ---- sacrebleu


def sacrebleu_sentence_statistics(metric: Any, hypotheses: Sequence[str], references: Sequence[str]) -> list[list[int]]:
    """Return the counts of each sentence that a BLEU or CHRF metric sums. sacrebleu 2.6: Metric."""
    return metric._extract_corpus_statistics(hypotheses, [references])


# ---- torch


def has_onednn_linear() -> bool:
    """Return whether this build of torch has oneDNN's linear layer. torch 2.13: torch.ops.mkldnn."""
    import torch

    return hasattr(torch.ops.mkldnn, "_linear_pointwise")


def onednn_linear(weight: "Tensor") -> "Callable[[Tensor, Tensor | None], Tensor]":
    """Return the function (x, b) ↦ x Wᵀ + b of a fp32 weight "O I" on the CPU, packed by oneDNN. It has no gradient."""
    import torch

    packed = torch.ops.mkldnn._reorder_linear_weight(weight)
    multiply = torch.ops.mkldnn._linear_pointwise
    return lambda x, bias: multiply(x, packed, bias, "none", [], "")


def is_unmodified(module: "nn.Module") -> bool:
    """Return whether a module computes what its class does, and nothing else is called with it.

    Its class is torch's or heed's own. Neither it nor all modules have forward hooks, and none of its methods was
    replaced in the instance. torch 2.13: ``Module._call_impl``; a parametrized module has a class of its own.
    """
    cls: type = type(module)
    own, everywhere, methods = vars(module), sys.modules["torch.nn.modules.module"], _methods(cls)
    hooks = own["_forward_hooks"] or own["_forward_pre_hooks"]
    global_hooks = everywhere._global_forward_hooks or everywhere._global_forward_pre_hooks
    return not (hooks or global_hooks or methods is None) and methods.isdisjoint(own)


@cache
def _methods(cls: type) -> frozenset[str] | None:
    """Return the names of a class's methods; None if the class is not torch's or heed's own."""
    if not cls.__module__.startswith(("heed.", "torch.nn.modules.")):
        return None
    return frozenset(name for name in dir(cls) if callable(getattr(cls, name)))


def descend_all_(
    tensors: "Sequence[Tensor]", updates: "Sequence[Tensor]", *, decay: "float | Tensor", step_size: float
) -> None:
    """Make every W ``decay`` · W − ``step_size`` · U (torch 2.8: ``torch._foreach_mul_``, ``torch._foreach_sub_``)."""
    import torch

    torch._foreach_mul_(list(tensors), decay)
    torch._foreach_sub_(list(tensors), list(updates), alpha=step_size)


def reads_found_inf(optimizer: "Optimizer") -> bool:
    """Whether a step changes nothing where ``optimizer.found_inf`` is 1 (torch 2.8: ``_step_supports_amp_scaling``).

    This is the contract between GradScaler and fused optimizers: their kernels read the flag on the device.
    """
    return bool(getattr(optimizer, "_step_supports_amp_scaling", False))


def norms(tensors: "Sequence[Tensor]") -> "Sequence[Tensor]":
    """Return the L2 norm of every tensor (torch 2.8: ``torch._foreach_norm``)."""
    import torch

    return torch._foreach_norm(list(tensors))
