"""``heed patch``: which attention head carries what tells two sentences apart."""

import argparse

from heed.cli.ablate import choose_contrasts
from heed.cli.arguments import load_translator
from heed.cli.lines import path_text, translator_progress, write_lines
from heed.errors import HeedError
from heed.files import write_file


def run(args: argparse.Namespace) -> None:
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
    write_file(args.out, patching_page(found, facts).encode(errors="replace"), into_devices=True)
    write_lines([patching_table(found), f"Page: {path_text(args.out)}"])
