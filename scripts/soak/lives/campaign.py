"""Draw the cases that try what was tried least, run them in several processes, and shrink what fails."""

import argparse
import json
import multiprocessing
import os
import random
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, replace
from functools import cache
from itertools import combinations
from pathlib import Path

from soak.lives.corpora import write_corpora
from soak.lives.forked import forked, preload
from soak.lives.life import FAMILIES, FEATURES, TABLE, Case, Outcome, live, option
from soak.lives.stages import COSTLY, STAGES
from soak.process import ROOT

SHRINK_SECONDS = 100.0
"""Time to shrink one failing case."""

RECORD = ROOT / "runs" / "soak" / "lives.jsonl"
"""A record of each tried case; git ignores it."""

RESUMED = ("ema", "early_stopping", "average_best", "mixture", "epochs")
"""Features with a state of their own in a checkpoint: half of the cases have one, since every case kills a training."""

Pair = tuple[str, str]


def pairs_of(case: Case) -> list[Pair]:
    """Return the pairs of features and stages that a case tries."""
    return [*combinations(sorted((*case.features, *case.stages)), 2)]


def may_meet(one: str, other: str) -> bool:
    """Return whether two features can be in one case: they set no common option, and one family has both."""
    names = [{option(word) for word in FEATURES[name]} for name in (one, other)]
    families = {family for name in (one, other) for family in FAMILIES if name in TABLE[family]}
    return not names[0] & names[1] and len(families) < 2


@cache
def all_pairs() -> list[Pair]:
    """Return every pair that a case can try."""
    features = [pair for pair in combinations(sorted(FEATURES), 2) if may_meet(*pair)]
    return [*features, *(tuple(sorted((a, b))) for a in FEATURES for b in STAGES), *combinations(sorted(STAGES), 2)]  # type: ignore[list-item]


def draw_case(rng: random.Random, counts: Counter[Pair]) -> Case:
    """Draw a case around a pair that was tried least; the rest is what adds most to the least tried pairs."""
    pairs = all_pairs()
    fewest = min(counts[pair] for pair in pairs)
    chosen = list(rng.choice([pair for pair in pairs if counts[pair] == fewest]))
    features, stages = [n for n in chosen if n in FEATURES], [n for n in chosen if n in STAGES]
    wanted, wanted_stages = rng.randint(2, 6), rng.randint(4, 6)
    stages += ["kill"] * ("kill" not in stages)  # what matters most is in every case

    def add(chosen: list[str], names: Sequence[str]) -> None:
        tried = {
            name: sum(counts[min(name, other), max(name, other)] for other in (*features, *stages)) for name in names
        }
        fewest = min(tried.values())
        chosen.append(rng.choice([name for name in names if tried[name] == fewest]))

    resumed = rng.choice(RESUMED)
    if rng.random() < 0.5 and all(may_meet(resumed, other) for other in features):
        features.append(resumed)
    while len(features) < wanted:
        free = [name for name in FEATURES if name not in features and all(may_meet(name, other) for other in features)]
        add(features, rng.sample(free, min(8, len(free))))  # from a few, or every case would have the same rare ones
    while len(stages) < wanted_stages:
        full = any(name in COSTLY for name in stages)
        free = [name for name in STAGES if name not in stages and not (full and name in COSTLY)]
        add(stages, rng.sample(free, min(6, len(free))))
    families = [family for family in FAMILIES if any(name in TABLE[family] for name in features)]
    return Case(families[0] if families else rng.choice(FAMILIES), tuple(features), tuple(stages), rng.randrange(10**6))


def read_counts(file: Path) -> Counter[Pair]:
    """Return how often each pair was tried, from the file of earlier campaigns."""
    counts = Counter[Pair]()
    for line in file.read_text(encoding="utf-8").split("\n")[:-1] if file.exists() else []:
        record = json.loads(line)
        try:
            case, drawn = Case.parse(record["case"]), Case.parse(record["drawn"])
        except ValueError:  # a feature that heed had
            continue
        counts.update(pairs_of(case))
        for names in (set(refused.split(" + ")) for refused, _ in record["refused"]):
            # A pair that is refused together was tried; so was one that is refused alone, with all it was drawn with.
            counts.update(p for p in pairs_of(drawn) if names <= {*p} or names >= {*p})
    return counts


def shrink(outcome: Outcome, corpus: Path, folder: Path) -> Outcome:
    """Return a failing outcome with the fewest stages and features that still fails in the same place."""
    end, kind = time.monotonic() + SHRINK_SECONDS, _kind(outcome)
    case, again = outcome.case, True
    while again and time.monotonic() < end:
        again = False
        smaller = [replace(case, stages=tuple(s for s in case.stages if s != stage)) for stage in case.stages]
        smaller += [replace(case, features=tuple(f for f in case.features if f != name)) for name in case.features]
        for one in smaller:
            found = live(one, corpus, folder)
            if found.problems and _kind(found) == kind:
                case, outcome, again = one, found, True
                break
    return outcome


def _kind(outcome: Outcome) -> str:
    return outcome.problems[0].partition(":")[0]


def campaign(cases: Iterable[Case], *, record: Path | None, jobs: int, until_failure: bool = False) -> list[Outcome]:
    """Run cases, print and shrink those that fail, and append all to the file of tried cases."""
    preload()
    work = Path(tempfile.mkdtemp(prefix="heed-lives-"))
    made = forked(lambda: write_corpora(work / "corpus"), ("corpus",), work)
    if made.status:
        raise RuntimeError(made.err)
    start, outcomes = time.monotonic(), list[Outcome]()
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("fork")) as pool:
        for done in as_completed([pool.submit(_live, case, work / str(number)) for number, case in enumerate(cases)]):
            outcome = done.result()
            outcomes.append(outcome)
            if record:
                record.parent.mkdir(parents=True, exist_ok=True)
                line = {**asdict(outcome), "case": str(outcome.case), "drawn": str(outcome.drawn)}
                with record.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line, ensure_ascii=False) + "\n")
            failed = sum(bool(each.problems) for each in outcomes)
            seconds = sum(each.seconds for each in outcomes) / len(outcomes)
            passed = time.monotonic() - start
            print(f"{len(outcomes)} cases, {failed} failed, {seconds:.1f} CPU seconds each, {passed:.0f} s", flush=True)
            if outcome.problems:
                print("failed", str(outcome.case), *outcome.problems, sep="\n  ", flush=True)
                if until_failure:
                    pool.shutdown(wait=False, cancel_futures=True)
                    break
                smaller = shrink(outcome, work / "corpus", work / "shrunk")
                again = f"python -m scripts.soak pairs --case '{smaller.case}'"
                print("FAILED", *smaller.problems, again, sep="\n  ", flush=True)
    return outcomes


def _live(case: Case, folder: Path) -> Outcome:
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        return live(case, folder.parent / "corpus", folder)
    except Exception:
        return Outcome(case, case, [f"machine: {traceback.format_exc()[-900:]}"])


def main(arguments: Sequence[str]) -> int:
    """Run ``python -m scripts.soak pairs``; return 1 if a case failed."""
    parser = argparse.ArgumentParser(prog="python -m scripts.soak pairs", description=__doc__)
    parser.add_argument("--cases", type=int, default=100, help="number of cases (default: %(default)s)")
    parser.add_argument("--case", action="append", type=Case.parse, help="run this case alone, as a failure prints it")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the cases (default: the time)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="cases at a time (default: one for each core)")
    parser.add_argument("--until-failure", action="store_true", help="stop at the first failure")
    parser.add_argument("--record", type=Path, default=RECORD, help="file of all tried cases (default: %(default)s)")
    given = parser.parse_args(arguments)
    counts, rng = read_counts(given.record), random.Random(given.seed)

    def drawn() -> Iterator[Case]:
        for _ in range(given.cases):
            case = draw_case(rng, counts)
            counts.update(pairs_of(case))
            yield case

    print(f"seed {given.seed}")
    cases, record = (given.case, None) if given.case else (drawn(), given.record)
    outcomes = campaign(cases, record=record, jobs=given.jobs, until_failure=given.until_failure)
    refused = Counter(names for each in outcomes for names, _ in each.refused)
    sentences = {names: sentence for each in outcomes for names, sentence in each.refused}
    for names, count in refused.most_common():
        print(f"refused {count} times: {names}: {sentences[names]}")
    untried = sum(not counts[pair] for pair in all_pairs())
    print(f"{len(outcomes)} cases; {untried:,} of {len(all_pairs()):,} pairs were never tried")
    return int(any(outcome.problems for outcome in outcomes))
