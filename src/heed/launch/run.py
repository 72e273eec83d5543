"""The plan of one run: build, fit, test, and write the results."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from heed.errors import HeedError, first_line
from heed.files import writing
from heed.inference import model_folder
from heed.launch.assemble import assemble
from heed.launch.configuration import build_parts
from heed.launch.dry_run import check_precision, dry_run
from heed.launch.finish import write_run
from heed.launch.processes import check_world_size, detect_launch, is_first_process
from heed.launch.status import print_status
from heed.launch.summary import results_summary, run_summary
from heed.launch.weights import chosen_weights, load_selection
from heed.runs.folder import RunFolder
from heed.training.callbacks.checkpoints import find_checkpoints
from heed.training.loggers import closing
from heed.training.module import TranslationModule


def train_one_run(cfg: Any, folder: Path) -> None:
    """Train one model in a claimed folder, test it and write its results.

    Args:
        cfg: Hydra's DictConfig; beartype cannot check the type.
    """
    config: Any = OmegaConf.to_container(cfg, resolve=True)
    parts = build_parts(cfg)
    dry_run(parts["model"], parts["optimizer"], parts["schedule"], cfg.weights, config["callbacks"])

    launch = detect_launch()
    run = RunFolder(folder, config)
    checkpoint = run.open(write=is_first_process(launch))
    selection, comet = load_selection(cfg.select)
    trainer = parts["trainer"](
        folder=folder,
        callbacks=parts["callbacks"](folder=folder, selection=selection),
        loggers=parts["logger"](folder=folder, config=config),
    )
    check_world_size(trainer, launch)
    check_precision(parts["model"], precision=trainer.precision, device=trainer.strategy.root_device.type)
    parent = model_folder.find(Path(cfg.init_from)) if cfg.init_from else None

    corpus = parts["data"].load()
    print_status(str(corpus.cleaning))
    data, module = assemble(parts, config, corpus, parent=parent, comet=comet)
    print_status(run_summary(folder, trainer, module, data))

    with closing(trainer.loggers), writing(folder):
        with explain_damaged_checkpoint(checkpoint, module):
            trainer.fit(module, data, ckpt_path=checkpoint, weights_only=True)
        if not (module.training_began or cfg.resume):
            raise HeedError(
                f"{checkpoint} is already at step {trainer.global_step:,} of trainer.max_steps={trainer.max_steps}: "
                "raise trainer.max_steps to train further."
            )
        module.model.load_state_dict(chosen_weights(cfg.weights, find_checkpoints(trainer.callbacks)))
        trainer.test(module, data, verbose=False)
        if trainer.is_global_zero:
            results = write_run(run, trainer, module)
            print_status(results_summary(folder, results, example=data.datasets["valid"]["src"][0]))


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
