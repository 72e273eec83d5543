"""Every claim that courses make about attention, measured on the built-in corpus.

    python scripts/claims.py                        all of them
    python scripts/claims.py claims=order,scaling   some
    python scripts/claims.py out=elsewhere          not to runs/claims

Trains the models it needs, small ones, and keeps them for the next time. Leaves index.html and claims.json.
"""

import json
import os
import platform
import sys
import time
from pathlib import Path

from experiments import CLAIMS
from experiments.claim import Claim, Finding
from experiments.laboratory import Laboratory
from experiments.page import render
from experiments.recipes import COMMON, LONG_STEPS
from heed.errors import HeedError
from heed.options import did_you_mean

ROOT = Path(__file__).parent.parent


def main(arguments: list[str]) -> None:
    settings = {"claims": "", "out": "runs/claims"}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if name not in settings or not equals:
            raise HeedError(
                f"{argument} is unknown{did_you_mean(name, settings)}: there is claims=NAME,NAME and out=DIR."
            )
        settings[name] = value
    claims = chosen(settings["claims"])
    folder = Path(settings["out"]).resolve()
    started = time.monotonic()
    laboratory = Laboratory(
        train=ROOT / "train.py", folder=folder / "models", common=COMMON, at_once=os.cpu_count() or 1, say=say
    )
    # From behind: the longest training belongs to the last claim, and nobody should wait for it alone.
    laboratory.prepare(recipe for claim in reversed(claims) for recipe in claim.recipes)
    found = []
    for claim in claims:
        finding = claim.experiment(laboratory)
        found.append((claim, finding))
        say(f"\n{claim.name}: {'held' if finding.held else 'DID NOT HOLD'}. {claim.claim}\n  {finding.summary}")
    minutes = (time.monotonic() - started) / 60
    write(folder, found, minutes)
    held = sum(finding.held for _, finding in found)
    say(f"\n{held} of {len(found)} claims held, {minutes:.0f} min. {folder / 'index.html'}")


def chosen(names: str) -> list[Claim]:
    """The claims of these names, all of them if there are none."""
    by_name = {claim.name: claim for claim in CLAIMS}
    for name in filter(None, names.split(",")):
        if name not in by_name:
            raise HeedError(f"There is no claim {name}{did_you_mean(name, by_name)}: choose from {', '.join(by_name)}.")
    return [by_name[name] for name in names.split(",")] if names else list(CLAIMS)


def write(folder: Path, found: list[tuple[Claim, Finding]], minutes: float) -> None:
    """claims.json and the page."""
    folder.mkdir(parents=True, exist_ok=True)
    plain = [
        {
            "name": claim.name,
            "claim": claim.claim,
            "measurement": claim.measurement,
            "held": finding.held,
            "summary": finding.summary,
            "numbers": finding.numbers,
        }
        for claim, finding in found
    ]
    (folder / "claims.json").write_text(json.dumps({"claims": plain}, indent=1, ensure_ascii=False), encoding="utf-8")
    machine = f"{os.cpu_count()} × {platform.machine()}, {platform.system()}, Python {platform.python_version()}"
    facts = [
        f"Made in {minutes:.0f} minutes on {machine}, trainings of earlier calls not counted.",
        "Models are trained by train.py on data=synthetic, one core each, with: "
        + " ".join(COMMON)
        + f" (where it says so: trainer.max_steps={LONG_STEPS}).",
        "± is the standard deviation over seeds; small dots are single runs. BLEU is sacreBLEU's, 13a, mixed case, "
        "greedy search.",
    ]
    (folder / "index.html").write_text(render(found, facts=facts), encoding="utf-8")


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except HeedError as error:
        print(f"claims.py: {error}", file=sys.stderr)
        sys.exit(2)
