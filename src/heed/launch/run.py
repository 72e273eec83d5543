"""The plan of one run: build, fit, test, and write the results."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from lightning.pytorch.callbacks import Callback
from omegaconf import OmegaConf

from heed.errors import HeedError, first_line
from heed.files import writing
from heed.launch.assemble import assemble
from heed.launch.differences import find_differences
from heed.launch.dry_run import dry_run
from heed.launch.fine_tuning import describe_start, inherit_architecture, score_initial_weights
from heed.launch.finish import write_run
from heed.launch.hydra_folder import write_hydra_folder
from heed.launch.processes import detect_launch, is_first_process
from heed.launch.summary import results_summary, run_summary
from heed.launch.weights import chosen_weights
from heed.progress import print_line
from heed.runs.config import find_config
from heed.runs.folder import RunFolder
from heed.runs.resume import check_start
from heed.training.callbacks.checkpoints import find_checkpoints
from heed.training.callbacks.pruning import find_pruned_step
from heed.training.loggers import closing
from heed.training.module import TranslationModule
from heed.training.trainer import resolve_precision


def train_one_run(cfg: Any, folder: Path, callbacks: Sequence[Callback] = ()) -> dict[str, Any] | None:
    """Train one model in a claimed folder, test it and write its results.

    Args:
        cfg: Hydra's DictConfig; beartype cannot check the type.
        callbacks: further ones than those of the configuration.

    Returns:
        The content of results.json; None in all processes but the first, and if a search ended the run early.
    """
    check_start(cfg)
    is_first = is_first_process(detect_launch())
    differences = find_differences(cfg) if is_first else []  # from the defaults, not from what is inherited
    if cfg.init_from:
        inherit_architecture(cfg, HydraConfig.get().overrides.task)
    dry_run(cfg)
    _choose_precision(cfg, folder)
    config: Any = OmegaConf.to_container(cfg, resolve=True)
    run = RunFolder(folder, config)
    checkpoint = run.open(write=is_first)
    if is_first:
        write_hydra_folder(cfg, folder)
    assembly = assemble(cfg, folder, callbacks)
    trainer, module, data = assembly.trainer, assembly.module, assembly.data
    if is_first:
        _check_room(folder, module, has_average=config["weights"] == "ema")
    print_line(run_summary(folder, trainer, module, data, differences=differences))
    if cfg.init_from:
        print_line(describe_start(cfg.init_from))

    with closing(trainer.loggers), writing(folder):
        if cfg.init_from and checkpoint is None:
            score_initial_weights(folder, trainer, module, data)
        with explain_damaged_checkpoint(checkpoint, module):
            trainer.fit(module, data, ckpt_path=checkpoint, weights_only=True)
        if not (module.training_began or cfg.resume):
            raise HeedError(
                f"{checkpoint} is already at step {trainer.global_step:,} of trainer.max_steps={trainer.max_steps}: "
                "raise trainer.max_steps to train further."
            )
        if (step := find_pruned_step(trainer.callbacks)) is not None:
            if trainer.is_global_zero:
                run.write_pruned(step)
            return None
        module.model.load_state_dict(chosen_weights(cfg.weights, find_checkpoints(trainer.callbacks)))
        trainer.test(module, data, verbose=False)
        if trainer.is_global_zero:
            results = write_run(run, trainer, module, options=differences)
            print_line(results_summary(folder, results, example=data.texts[data.validated[0]].src[0]))
            return results
    return None


def _choose_precision(cfg: Any, folder: Path) -> None:
    """Replace ``trainer.precision=auto`` by what it means on this machine, or, for a resumed run, where it started."""
    trainer = cfg.trainer
    before = find_config(folder) if cfg.resume and trainer.precision == "auto" else None
    chosen = before["trainer"]["precision"] if before else trainer.precision
    trainer.precision = resolve_precision(chosen, trainer.accelerator)


def _check_room(folder: Path, module: TranslationModule, *, has_average: bool) -> None:
    """Raise a HeedError if the disk has too little room for a checkpoint: weights, their average, optimizer state."""
    moments = 2 if "betas" in module.configure_optimizers().defaults else 0
    weights = sum(parameter.numel() * parameter.element_size() for parameter in module.parameters())
    needed, free = (1 + moments + has_average) * weights, shutil.disk_usage(folder).free
    if needed > free:
        raise HeedError(
            f"{folder} has {free / 1e6:,.0f} MB of free space, but a checkpoint of this model needs about "
            f"{needed / 1e6:,.0f} MB: make room, or set hydra.run.dir=DIR to a folder on another disk."
        )


@contextmanager
def explain_damaged_checkpoint(checkpoint: Path | None, module: TranslationModule) -> Iterator[None]:
    """Turn any error while a checkpoint is restored into a HeedError that names the checkpoint.

    A checkpoint holds state of heed, Lightning and torch, and any part of it may be missing or wrong.
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
            f"({type(error).__name__}: {first_line(error)}). Name another checkpoint with ckpt_path=."
        ) from error
