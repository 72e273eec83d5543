"""Test fourteen claims that courses make about attention on the built-in corpus.

    python scripts/experiments                    all claims
    python scripts/experiments order scaling      some of them
    python scripts/experiments --out DIR          write to DIR instead of runs/claims
    python scripts/experiments --seeds 5          train each model five times, with the seeds 1 to 5

Trains the small models that the claims need and keeps them for the next call. Prints whether each claim
held and what was measured. claims.json has all numbers.
"""

import argparse
import json
import os
import sys
import time
from datetime import date
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.claim import Claim, Finding
from experiments.claims import CLAIMS
from experiments.measures import plain
from experiments.runner import ROOT, ExperimentRunner
from experiments.small_models import COMMON, LONG_STEPS, STEPS
from heed.errors import HeedError

RESULTS = ROOT / "docs" / "results" / "claims.json"
NAMES = ", ".join(claim.name for claim in CLAIMS)


def main(arguments: list[str]) -> None:
    """Train, measure and report.

    Raises:
        HeedError: a training failed.
    """
    parser = argparse.ArgumentParser(
        prog="python scripts/experiments", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "claims", nargs="*", type=claim_named, metavar="CLAIM", help=", ".join(of.name for of in CLAIMS)
    )
    parser.add_argument("--out", type=Path, default=Path("runs/claims"), help="folder to write to")
    parser.add_argument("--seeds", type=int, help="trainings of each model (default: two, or one for a side remark)")
    parser.add_argument("--parallel", type=int, default=os.cpu_count() or 1, help="trainings at a time, one core each")
    parser.add_argument(
        "--publish", metavar="MACHINE", help="write docs/results/claims.json; the machine's description"
    )
    options = parser.parse_args(arguments)
    claims = options.claims or CLAIMS
    folder = options.out.resolve()
    started = time.monotonic()
    runner = ExperimentRunner(folder / "models", COMMON, parallel=options.parallel, seeds=options.seeds)
    # In reverse: the last claim's models train longest, and should not be the last to start.
    runner.train_missing(spec for claim in reversed(claims) for spec in claim.models.values())
    findings, costs = [], {}
    for claim in claims:
        trained = {label: runner.trained(spec) for label, spec in claim.models.items()}
        finding = claim.experiment(trained)
        findings.append((claim, finding))
        seconds = [float(model.results["train_seconds"]) for seeds in trained.values() for model in seeds]
        costs[claim.name] = {"trainings": len(seconds), "minutes": round(sum(seconds) / 60)}
        held = "held" if finding.held else "DID NOT HOLD"
        print(f"\n{claim.name}: {held}. {claim.claim}\n  {finding.summary}", flush=True)
        print("".join(f"  {figure.what}: {figure.plain()['value']}\n" for figure in finding.table), end="", flush=True)
    minutes = (time.monotonic() - started) / 60
    write(folder, findings)
    if options.publish:
        publish(findings, costs, options.seeds or 2, options.publish)
    number = sum(finding.held for _, finding in findings)
    print(f"\n{number} of {len(findings)} claims held, {minutes:.0f} min. {folder / 'claims.json'}")


def claim_named(name: str) -> Claim:
    """Return the claim with this name, for argparse, which refuses no arguments at all if they have ``choices``."""
    found = next((claim for claim in CLAIMS if claim.name == name), None)
    if not found:
        raise argparse.ArgumentTypeError(f"invalid choice: {name!r} (choose from {NAMES})")
    return found


def write(folder: Path, findings: list[tuple[Claim, Finding]]) -> None:
    """Write claims.json."""
    folder.mkdir(parents=True, exist_ok=True)
    content = [
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
    text = json.dumps({"claims": content}, indent=1, ensure_ascii=False, default=plain)
    (folder / "claims.json").write_text(text, encoding="utf-8")


def publish(findings: list[tuple[Claim, Finding]], costs: dict[str, dict[str, int]], seeds: int, machine: str) -> None:
    """Write the findings to docs/results/claims.json. A claim that was not measured keeps its row.

    Args:
        costs: the number of trainings of each claim, and their minutes.
    """
    content = json.loads(RESULTS.read_text(encoding="utf-8"))
    for claim, finding in findings:
        row = content["rows"][claim.name]
        row |= {"held": bool(finding.held), "figures": [figure.plain() for figure in finding.table]} | costs[claim.name]
    content |= {
        "machine": machine,
        "date": date.today().isoformat(),
        "seeds": f"1 to {seeds} for trained models; {STEPS} steps each, or {LONG_STEPS:,} for what is learnt late",
        "spread": "standard deviation over the seeds",
    }
    content["values"] |= {
        "claims": len(content["rows"]),
        "not_held": sum(not row["held"] for row in content["rows"].values()),
    }
    RESULTS.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except HeedError as error:
        print(f"experiments: {error}", file=sys.stderr)
        sys.exit(2)
