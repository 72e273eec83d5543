"""``diversify=N``: models of both directions translate the training text first.

Source: Nguyen et al. 2020, "Data Diversification: A Simple Strategy For Neural Machine Translation".
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

from heed.cache import cache_key
from heed.data.corpus import Corpus
from heed.errors import HeedError
from heed.files import replacing, write_file
from heed.launch.compose import Config, compose_with_hydra, quote
from heed.launch.configuration import build_parts, plain_options
from heed.progress import is_first_process, print_line
from heed.runs.checkpoints import latest_checkpoint
from heed.runs.config import effective_options, role
from heed.runs.results import RESULTS

SPLITS = ("train", "valid", "test")
"""The options of ``data=files`` that name files."""


def diversify(cfg: Config) -> None:
    """Replace the corpus of a configuration by its text and the translations by ``cfg.diversify`` models per direction.

    The models are runs with the same options and the seeds 1 to N, in the folder ``diversified`` of ``cache_dir``. They
    do not depend on ``cfg.seed``. What an earlier call has finished is not done again.

    Raises:
        HeedError: if the corpus is a mixture or has several directions, a model cannot be trained, or this is not the
            first process.
    """
    base = cfg.copy()
    base.seed = 1  # other options may refer to it
    config = plain_options(base)
    corpus: Corpus = build_parts(config)["data"].load()
    if corpus.train.is_mixture or len(corpus.directions) > 1:
        raise HeedError("diversify= needs a single text of one direction: leave out mixtures and data.both_directions.")
    options = {  # that change the models; the digest stands for the text
        name: value
        for name, value in effective_options(config).items()
        if name != "diversify" and role(name) not in ("seed", "text") and not re.match(r"data\.(?!noise)", name)
    }
    key = cache_key(corpus.digest, sorted((name, repr(value)) for name, value in options.items()))
    folder = (Path(cfg.cache_dir) / "diversified" / key).absolute()
    file = folder / f"data-{cfg.diversify}.json"
    if not file.exists():
        if not is_first_process():
            raise HeedError("diversify= trains several models, one after another: start it in one process first.")
        print_line(f"Diversification in {folder}: if it is interrupted, the same command continues it.")
        text = _write_corpus(corpus, folder)
        text["train"] += _translate(_train_models(cfg, folder), folder)
        write_file(file, json.dumps(text, indent=2) + "\n")
    files: Any = OmegaConf.to_container(compose_with_hydra(["data=files"]).data)
    kept = {name: cfg.data[name] for name in ("cleaning", "preparation", "noise", "max_eval_tokens", "cache_dir")}
    text = json.loads(file.read_text(encoding="utf-8"))
    cfg.data = {**files, **text, **{split: _in_folder(folder, text[split]) for split in SPLITS}, **kept}


def _in_folder(folder: Path, files: Any) -> Any:
    """Return nested lists and mappings of files with the folder in front of each file."""
    if isinstance(files, dict):
        return {name: _in_folder(folder, each) for name, each in files.items()}
    return [_in_folder(folder, each) for each in files] if isinstance(files, list) else files and str(folder / files)


def _write_corpus(corpus: Corpus, folder: Path) -> dict[str, Any]:
    """Write the text of a corpus, and return the options of ``data=files`` that read it, with relative paths."""
    blocks = (text.clean.read(number)[0] for text in corpus.train.texts for number in text.clean.blocks)
    (valid,) = corpus.valid.values()
    tests = {name: [_write_text(folder, f"test/{name}", [part.text])] for name, part in corpus.tests.items()}
    return {
        "train": [_write_text(folder, "train", blocks)],
        "valid": [_write_text(folder, "valid", [valid.text])],
        "test": tests or None,
        **corpus.directions[0]._asdict(),
    }


def _write_text(folder: Path, name: str, blocks: Iterable[Any]) -> list[str]:
    """Write the sides of a text, and return their files, relative to the folder."""
    names = [f"{name}.src", f"{name}.tgt"]
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    with (
        replacing(folder / names[0]) as src,
        replacing(folder / names[1]) as tgt,
        src.open("w", encoding="utf-8") as sources,
        tgt.open("w", encoding="utf-8") as targets,
    ):
        for block in blocks:
            sources.writelines(f"{line}\n" for line in block.src)
            targets.writelines(f"{line}\n" for line in block.tgt)
    return names


def _train_models(cfg: Config, folder: Path) -> dict[str, list[Path]]:
    """Train the models of each direction, and return their folders by the option of ``heed synthesize``."""
    models: dict[str, list[Path]] = {"--model": [], "--reverse-model": []}
    for seed in range(1, cfg.diversify + 1):
        for name, option in (("forward", "--model"), ("backward", "--reverse-model")):
            model = folder / f"{name}-{seed}"
            models[option].append(model)
            if (model / RESULTS).exists():
                continue
            print_line(f"Training {model}, one of {2 * cfg.diversify} models that translate the training text.")
            changes = {
                "diversify": "0", "test": "false", "seed": seed, "hydra.run.dir": quote(model),
                "resume": "true" if latest_checkpoint(model) else "false",
                "data.reverse": str((name == "backward") != cfg.data.reverse).lower(),
            }  # fmt: skip
            given = [word for word in HydraConfig.get().overrides.task if word.partition("=")[0] not in changes]
            _heed("train", [*given, *(f"{option}={value}" for option, value in changes.items())])
    return models


def _translate(models: dict[str, list[Path]], folder: Path) -> list[str]:
    """Translate the training text with all models, and return the files of the pairs, relative to the folder."""
    pairs = folder / f"pairs-{len(models['--model'])}"
    words = [word for option, found in models.items() for model in found for word in (option, str(model))]
    sides = ["--src", f"{folder / 'train.src'}", "--tgt", f"{folder / 'train.tgt'}"]
    _heed("synthesize", [*words, *sides, "--out", str(pairs)])
    return [f"{pairs.name}/{number}.jsonl" for number in range(1, sum(map(len, models.values())) + 1)]


def _heed(command: str, arguments: Sequence[str]) -> None:
    if subprocess.run([sys.executable, "-m", "heed", command, *arguments], check=False).returncode:
        raise HeedError(f"diversify= ended because heed {command} failed: see its message above.")
