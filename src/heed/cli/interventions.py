"""``heed ablate`` and ``heed patch``: what a model loses without an attention head, and what a head carries."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from heed.cli.arguments import load_translator, search_options
from heed.cli.lines import path_text, read_parallel, translator_progress, write_lines
from heed.errors import HeedError
from heed.files import write_file

if TYPE_CHECKING:
    from heed.comparison.challenge import ContrastivePair


def ablate(args: argparse.Namespace) -> None:
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
    _write(args, ablation_page(*found, facts), ablation_table(*found))


def patch(args: argparse.Namespace) -> None:
    from heed.interventions.patching import patch
    from heed.report.interventions import patching_page, patching_table

    challenge, contrasts = choose_contrasts(args)
    contrasts = [each for each in contrasts if each.antecedent] or contrasts
    if not contrasts:
        raise HeedError("There is no challenge set for this model: name one with --challenge FILE.")
    translator, tags = load_translator(args), dict.fromkeys(each.tag for each in contrasts)
    passes = 2 + sum(1 + layers * heads for layers, heads in translator.model.attention_heads.values())
    with translator_progress(translator, "Patching heads", total=passes * len(contrasts), prints_results=False):
        found = {tag: patch(translator, [each for each in contrasts if each.tag == tag]) for tag in tags}
    facts = {"model": path_text(args.model), "challenge set": f"{challenge} ({len(contrasts):,} sentences)"}
    _write(args, patching_page(found, facts), patching_table(found))


def choose_contrasts(args: argparse.Namespace) -> tuple[str, "Sequence[ContrastivePair]"]:
    """Return the name and the pairs of the challenge set for the model."""
    from heed.comparison.challenge import choose_challenge
    from heed.comparison.runs import Run, Side
    from heed.runs.results import RESULTS, read_results

    folder = args.model.resolve()
    folder = folder.parent if folder.name == "model" else folder
    runs = [Run(folder, read_results(folder / RESULTS), [], None)] if (folder / RESULTS).is_file() else []
    return choose_challenge(args.challenge, [Side(folder.name, runs)])


def _write(args: argparse.Namespace, page: str, table: str) -> None:
    write_file(args.out, page.encode(errors="replace"), into_devices=True)
    write_lines([table, f"Page: {path_text(args.out)}"])
