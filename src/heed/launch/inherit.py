"""Fine-tuning with ``init_from=``: what a run inherits from a trained model."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from heed.data.pairs.tokenizer import Tokenizer
from heed.directions import Direction
from heed.errors import HeedError
from heed.inference import model_folder
from heed.languages import base_language
from heed.launch.compose import Options
from heed.launch.parts import build_model_on, build_part
from heed.models.seq2seq import ModelConfig
from heed.options import get_option, with_options
from heed.progress import print_line


def inherit_architecture(options: Options, words: Sequence[str]) -> Options:
    """Return the options with those of ``model`` replaced by the parent model's, except those that ``words`` choose.

    ``model=NAME`` must name a model of the same family. It only makes the family's options known.

    Raises:
        HeedError: if a word asks for another family of models, other shapes of weights, or another tokenizer.
    """
    parent_name, folder = options["init_from"], model_folder.find(Path(options["init_from"]))
    _, parent = model_folder.read_config(folder)
    given = [match[1] for word in words if (match := re.match(r"\+{0,2}([\w./]+)=", word))]
    if chosen := [name for name in given if re.match(r"tokenizer\b", name) and name != "tokenizer.bpe_dropout"]:
        raise HeedError(
            f"{' and '.join(chosen)} cannot be chosen with init_from=, because the tokenizer is inherited: leave "
            "it out. Only tokenizer.bpe_dropout applies."
        )
    if "model" in given and options["model"].get("_target_", "").rpartition(".")[2] != type(parent).__name__:
        raise HeedError(f"init_from={parent_name} is a model of the family {parent.family}: leave out model=NAME.")
    # model.dropout and model/attention both name options.
    paths = [name.replace("/", ".") for name in given if name.startswith(("model.", "model/"))]
    architecture = _change(parent, options, paths)
    if not _has_shapes(architecture, folder):
        wrong = [path for path in paths if not _has_shapes(_change(parent, options, [path]), folder)] or paths
        raise HeedError(
            f"init_from={parent_name} cannot be trained with other {' and '.join(wrong)}, which change the "
            "shapes of its weights: leave out these options."
        )
    return {**options, "model": _with_targets(architecture)}


def compare_directions(parent: Path, directions: Sequence[Direction], *, joint: bool) -> None:
    """Print the directions of a fine-tuning that its model was not trained for; ``joint``: it has one vocabulary.

    Raises:
        HeedError: if there are any, but each side of the model has the vocabulary of its language.
    """
    config, _ = model_folder.read_config(model_folder.find(parent))
    before = config.get("directions") or [[config.get("src_lang", ""), config.get("tgt_lang", "")]]
    trained = [Direction(*pair) for pair in before]
    known = {tuple(map(base_language, pair)) for pair in trained}
    new = [pair for pair in directions if tuple(map(base_language, pair)) not in known]
    if not new or {"", "und"} & {*chain(*known, *new)}:  # unknown languages
        return
    fine_tunes = f"fine-tunes {', '.join(map(str, trained))} for {', '.join(map(str, new))}"
    if not joint:
        raise HeedError(
            f"init_from={parent} {fine_tunes}, which have other vocabularies: swap the sides of the text "
            "(data.reverse), or leave out init_from=."
        )
    print_line(f"init_from={parent} {fine_tunes}.")


def _change(architecture: ModelConfig, options: Options, paths: Iterable[str]) -> ModelConfig:
    """Return the architecture with the values that ``options`` have at these paths ("model.dropout")."""
    changed = {"model": _with_targets(architecture)}
    changed = with_options(changed, {path: get_option(options, path) for path in paths})
    return build_part(changed["model"], where="model.")


def _has_shapes(architecture: ModelConfig, folder: Path) -> bool:
    """Return whether a model of this architecture has weights of the same names and shapes as a model folder."""
    model = build_model_on("meta", architecture, **Tokenizer.load(folder).vocabulary)
    return model_folder.has_shapes_of(model, folder)


def _with_targets(part: Any) -> Any:
    """Return a dataclass as the options from which `build_part` builds an equal one."""
    if not is_dataclass(part):
        return part
    options = {field.name: _with_targets(getattr(part, field.name)) for field in fields(part)}
    return {"_target_": f"{type(part).__module__}.{type(part).__qualname__}", **options}
