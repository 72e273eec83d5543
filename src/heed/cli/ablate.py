"""``heed ablate``: what a model loses when one of its attention heads is off."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from heed.cli.arguments import load_translator, search_options
from heed.cli.lines import path_text, read_parallel, translator_progress, write_lines
from heed.files import write_file

if TYPE_CHECKING:
    from heed.comparison.challenge import ContrastivePair


def choose_contrasts(args: argparse.Namespace) -> tuple[str, "Sequence[ContrastivePair]"]:
    """Return the name and the pairs of the challenge set for the model."""
    from heed.comparison.challenge import choose_challenge
    from heed.comparison.runs import Run, Side
    from heed.runs.results import RESULTS, read_results

    folder = args.model.resolve()
    folder = folder.parent if folder.name == "model" else folder
    runs = [Run(folder, read_results(folder / RESULTS), [], None)] if (folder / RESULTS).is_file() else []
    return choose_challenge(args.challenge, [Side(folder.name, runs)])


def run(args: argparse.Namespace) -> None:
    from heed.interventions.ablation import ablate
    from heed.report.interventions import ablation_page, ablation_table

    sources, references = read_parallel(args.src, args.ref)
    challenge, contrasts = choose_contrasts(args)
    translator = load_translator(args)
    heads = sum(layers * per_layer for layers, per_layer in translator.model.attention_heads.values())
    total = (1 + heads) * (len(sources) + 2 * len(contrasts))
    with translator_progress(translator, "Switching off heads", total=total, prints_results=False):
        found = ablate(translator, sources, references, contrasts=contrasts, **search_options(args))
    facts = {"model": path_text(args.model), "sentences": f"{path_text(args.src)} ({len(sources):,})"}
    facts |= {"challenge set": f"{challenge} ({len(contrasts):,} pairs)"} if contrasts else {}
    write_file(args.out, ablation_page(*found, facts).encode(errors="replace"), into_devices=True)
    write_lines([ablation_table(*found), f"Page: {path_text(args.out)}"])
