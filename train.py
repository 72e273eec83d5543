"""heed's main job: python train.py model=transformer. Compose, build, fit, test."""

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hydra
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

from heed.launch.configuration import JobFailed, build, explain

CONF = Path(__file__).parent.resolve() / "conf"


@dataclass
class Schema:
    """The root of the configuration, so that a typo there is an error. What each knob does: conf/train.yaml."""

    name: str
    seed: int
    test: bool
    weights: str
    select: str
    resume: bool
    ckpt_path: str | None
    init_from: str | None
    label_smoothing: float
    r_drop: float
    embedding_lr_scale: float
    clip_norm: float
    max_skipped_steps: int
    cache_dir: str
    batching: Any
    data: Any
    tokenizer: Any
    model: Any
    optimizer: Any
    schedule: Any
    search: Any
    trainer: Any
    callbacks: Any
    logger: Any


ConfigStore.instance().store(name="schema", node=Schema)


@hydra.main(version_base="1.3", config_path=str(CONF), config_name="train")
def train(cfg: DictConfig) -> None:
    """Claim a folder, and train a run there."""
    from heed.launch.run import claimed_folder

    with claimed_folder(cfg) as folder:
        one_run(cfg, folder)


def one_run(cfg: DictConfig, folder: Path) -> None:
    """Compose, build, fit, test."""
    import torch

    from heed.data.datamodule import TranslationData
    from heed.data.tokenizer import Tokenizer
    from heed.files import writing
    from heed.inference import model_folder
    from heed.launch.processes import check_world_size, detect_launch, is_first_process
    from heed.launch.run import (
        RunFolder,
        announcement,
        build_model,
        chosen_weights,
        explaining_damage,
        finish,
        load_selection,
        rehearse,
        say,
    )
    from heed.training.callbacks.checkpoints import find_checkpoints
    from heed.training.loggers import closing
    from heed.training.module import TranslationModule

    config: Any = OmegaConf.to_container(cfg, resolve=True)
    parts = build(cfg)
    rehearse(parts["model"], parts["optimizer"], parts["schedule"], cfg.weights, config["callbacks"])

    launch = detect_launch()
    run = RunFolder(folder, config)
    checkpoint = run.open(write=is_first_process(launch))
    selection, comet = load_selection(cfg.select)
    trainer = parts["trainer"](
        folder=run.path,
        callbacks=parts["callbacks"](folder=run.path, selection=selection),
        loggers=parts["logger"](folder=run.path, config=config),
    )
    check_world_size(trainer, launch)
    parent = model_folder.find(Path(cfg.init_from)) if cfg.init_from else None
    corpus = parts["data"].load()
    say(str(corpus.cleaning))
    learn = parts["tokenizer"]
    tokenizer = Tokenizer.load(parent) if parent else learn.train(corpus.train, cfg.cache_dir, tags=corpus.tags)
    data = TranslationData(
        corpus,
        tokenizer,
        parts["batching"],
        sampling=learn.sampling,
        with_tests=cfg.test,
        cache_dir=cfg.cache_dir,
    )

    torch.manual_seed(cfg.seed)
    vocabularies = {"src_vocab": tokenizer.src_vocab, "tgt_vocab": tokenizer.tgt_vocab}
    model = build_model(parts["model"], **vocabularies, joint=tokenizer.joint)
    if parent:
        model_folder.load_weights(model, parent)
    module = TranslationModule(
        model,
        tokenizer,
        optimizer=parts["optimizer"],
        schedule=parts["schedule"],
        search=parts["search"],
        label_smoothing=cfg.label_smoothing,
        r_drop=cfg.r_drop,
        embedding_lr_scale=cfg.embedding_lr_scale,
        clip_norm=cfg.clip_norm,
        max_skipped_steps=cfg.max_skipped_steps,
        seed=cfg.seed,
        comet=comet,
    )
    say(announcement(run.path, trainer, module, data))
    with closing(trainer.loggers), writing(run.path):
        with explaining_damage(checkpoint, module):
            trainer.fit(module, data, ckpt_path=checkpoint, weights_only=True)
        model.load_state_dict(chosen_weights(cfg.weights, find_checkpoints(trainer.callbacks)))
        trainer.test(module, data, verbose=False)
        if trainer.is_global_zero:
            finish(run, trainer, module)


def main() -> None:
    """Run. What the user can mend is a sentence and exit status 2, and an interruption 130; neither is a traceback."""
    os.environ["HYDRA_FULL_ERROR"] = "1"
    # As with Ctrl-C, so with the signal by which schedulers stop a job.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        train()
    except KeyboardInterrupt:
        sys.exit(130)
    except (Exception, JobFailed) as raised:
        error = raised.__cause__ if isinstance(raised, JobFailed) else raised
        assert error is not None
        explanation = explain(error, conf=CONF, overrides=sys.argv[1:])
        if explanation is None:
            raise error from error.__cause__
        print(f"train.py: {explanation}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
