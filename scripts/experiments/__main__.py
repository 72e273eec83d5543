"""Test twelve claims that courses make about attention on the built-in corpus.

    python scripts/experiments                        all claims
    python scripts/experiments claims=order,scaling   some of them
    python scripts/experiments out=DIR                write to DIR instead of runs/claims

Trains the small models that the claims need and keeps them for the next call. Writes index.html and claims.json.
"""

import json
import os
import platform
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.claim import Claim, Finding
from experiments.claims import CLAIMS
from experiments.page import render
from experiments.runner import ExperimentRunner
from experiments.small_models import COMMON, LONG_STEPS
from heed.errors import HeedError
from heed.options import did_you_mean

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: list[str]) -> None:
    """Train, measure and write the page.

    Raises:
        HeedError: an argument is unknown, or a training failed.
    """
    if {"-h", "--help"} & set(arguments):
        print(__doc__)
        return
    options = {"claims": "", "out": "runs/claims"}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if name not in options or not equals:
            raise HeedError(
                f"{argument} is unknown{did_you_mean(name, options)}: the options are claims=NAME,NAME and out=DIR."
            )
        options[name] = value
    claims = select_claims(options["claims"])
    folder = Path(options["out"]).resolve()
    started = time.monotonic()
    runner = ExperimentRunner(
        train=ROOT / "train.py",
        folder=folder / "models",
        common=COMMON,
        parallel=os.cpu_count() or 1,
        print_line=print_line,
    )
    # In reverse: the last claim's models train longest, and should not be the last to start.
    runner.train_missing(spec for claim in reversed(claims) for spec in claim.models)
    findings = []
    for claim in claims:
        finding = claim.experiment(runner)
        findings.append((claim, finding))
        print_line(f"\n{claim.name}: {'held' if finding.held else 'DID NOT HOLD'}. {claim.claim}\n  {finding.summary}")
    minutes = (time.monotonic() - started) / 60
    write(folder, findings, minutes)
    held = sum(finding.held for _, finding in findings)
    print_line(f"\n{held} of {len(findings)} claims held, {minutes:.0f} min. {folder / 'index.html'}")


def select_claims(names: str) -> list[Claim]:
    """Return the claims of a comma-separated list; all claims if it is empty."""
    by_name = {claim.name: claim for claim in CLAIMS}
    chosen = [name for name in names.split(",") if name]
    for name in chosen:
        if name not in by_name:
            raise HeedError(f"There is no claim {name}{did_you_mean(name, by_name)}: choose from {', '.join(by_name)}.")
    return [by_name[name] for name in chosen] or list(CLAIMS)


def write(folder: Path, findings: list[tuple[Claim, Finding]], minutes: float) -> None:
    """Write claims.json and index.html."""
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
        for claim, finding in findings
    ]
    (folder / "claims.json").write_text(json.dumps({"claims": plain}, indent=1, ensure_ascii=False), encoding="utf-8")
    machine = f"{os.cpu_count()} × {platform.machine()}, {platform.system()}, Python {platform.python_version()}"
    facts = [
        f"This call took {minutes:.0f} minutes on {machine}. Models from earlier calls were not trained again.",
        "Models are trained by train.py on data=synthetic, on one core each, with "
        + " ".join(COMMON)
        + f" (trainer.max_steps={LONG_STEPS} where stated).",
        "± is the standard deviation over seeds; small dots are single runs. BLEU is sacreBLEU's, 13a, mixed case, "
        "greedy search.",
    ]
    (folder / "index.html").write_text(render(findings, facts=facts), encoding="utf-8")


def print_line(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except HeedError as error:
        print(f"experiments: {error}", file=sys.stderr)
        sys.exit(2)
