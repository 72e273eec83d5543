"""Everything a comparison says in numbers and words, from what the runs wrote."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np

from heed.compare.runs import Run, Side, TestSet
from heed.evaluation import buckets
from heed.evaluation.health import symptoms
from heed.evaluation.scores import corpus_scores
from heed.evaluation.significance import (
    SCORES,
    Difference,
    PairedTests,
    Sample,
    Spread,
    Statistics,
    chrf,
    difference,
    holm,
    paired_tests,
    sample,
    spread,
    statistics,
)

ALPHA = 0.05
"""Below it a difference is called one."""
UNEQUAL = 1.05
"""From this ratio on, quantities are called unequal."""
BUCKET_RESAMPLES = 1_000
EXAMPLES = 8


@dataclass(frozen=True)
class SideReport:
    """One side, and how it did."""

    name: str
    runs: list[str]
    seeds: list[int]
    scores: dict[str, Spread]
    scores_by_run: dict[str, list[float]]
    symptoms: dict[str, list[list[int]]]
    """By monitor and run, the lines that show it, counted from 1."""


@dataclass(frozen=True)
class PairReport:
    """Two sides, the one with more BLEU first."""

    better: str
    worse: str
    identical: bool
    """Every translation is the same; nothing was tested then."""
    differences: dict[str, Difference]
    tests: dict[str, PairedTests] | None
    """Where either side is one run."""
    p: dict[str, float]
    """What decides: by randomization for two runs, by resampling for groups, adjusted for the number of pairs."""
    verdict: str


@dataclass(frozen=True)
class BucketReport:
    """A kind of sentences and how every side did on it, in the order of the sides."""

    label: str
    sentences: int
    scores: dict[str, list[Spread]]


@dataclass(frozen=True)
class BucketingReport:
    """A way to cut up the test set."""

    title: str
    note: str
    buckets: list[BucketReport]


@dataclass(frozen=True)
class Fact:
    """Something known of every side, in their order, as it is written; None where a run does not tell."""

    name: str
    values: list[str | None]
    equal: bool


@dataclass(frozen=True)
class Example:
    """A sentence on which the first runs of the sides differ much."""

    line: int
    source: str
    reference: str
    tag: str | None
    translations: list[str]
    chrf: list[float]


@dataclass(frozen=True)
class Comparison:
    """What is written to ``compare.json`` and drawn on the page."""

    split: str
    sentences: int
    signatures: dict[str, str]
    verdict: list[str]
    warnings: list[str]
    sides: list[SideReport]
    pairs: list[PairReport]
    facts: list[Fact]
    bucketings: list[BucketingReport]
    examples: list[Example]

    def to_plain(self) -> dict[str, Any]:
        """Numbers, strings, lists and dicts."""
        return asdict(self)


SideStatistics = Mapping[str, Sequence[Statistics]]
"""By metric, of each run."""


def compare(test_set: TestSet, sides: Sequence[Side]) -> Comparison:
    """Score all runs alike, test all pairs of sides, and look where they differ."""
    tgt_lang = sides[0].runs[0].results.get("tgt_lang", "und")
    scored = corpus_scores(test_set.references[:1], test_set.references[:1], tgt_lang=tgt_lang)
    signatures = {"BLEU": scored.bleu_signature, "chrF": scored.chrf_signature}
    counted = [_statistics(side, test_set, tgt_lang) for side in sides]
    samples = [{name: sample(runs[name], score) for name, score in SCORES.items()} for runs in counted]
    pairs = _pairs(sides, counted, samples)
    return Comparison(
        split=test_set.split,
        sentences=len(test_set.sources),
        signatures=signatures,
        verdict=[pair.verdict for pair in pairs],
        warnings=_warnings(test_set, sides, signatures),
        sides=[_side_report(side, test_set, sampled) for side, sampled in zip(sides, samples, strict=True)],
        pairs=pairs,
        facts=_facts(test_set, sides),
        bucketings=[_bucketing_report(bucketing, counted) for bucketing in _bucketings(test_set)],
        examples=_examples(test_set, sides, counted),
    )


def _statistics(side: Side, test_set: TestSet, tgt_lang: str) -> SideStatistics:
    by_run = [statistics(run.translations, test_set.references, tgt_lang=tgt_lang) for run in side.runs]
    return {name: [run[name] for run in by_run] for name in SCORES}


def _side_report(side: Side, test_set: TestSet, sampled: Mapping[str, Sample]) -> SideReport:
    found = [_from_one(symptoms(test_set.sources, test_set.references, run.translations)) for run in side.runs]
    return SideReport(
        name=side.name,
        runs=[str(run.path) for run in side.runs],
        seeds=[run.results.get("seed", 0) for run in side.runs],
        scores={name: spread(each) for name, each in sampled.items()},
        scores_by_run={name: each.scores.tolist() for name, each in sampled.items()},
        symptoms={monitor: [run[monitor] for run in found] for monitor in found[0]},
    )


def _from_one(rows: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    """People count lines from 1."""
    return {name: [row + 1 for row in found] for name, found in rows.items()}


# ---- the verdict


def _pairs(
    sides: Sequence[Side], counted: Sequence[SideStatistics], samples: Sequence[Mapping[str, Sample]]
) -> list[PairReport]:
    """All pairs of sides. p-values are adjusted over the pairs that are not identical."""
    drafts = []
    for i, j in combinations(range(len(sides)), 2):
        if samples[i]["BLEU"].scores.mean() < samples[j]["BLEU"].scores.mean():
            i, j = j, i
        differences = {name: difference(samples[i][name], samples[j][name]) for name in SCORES}
        single = len(sides[i].runs) == len(sides[j].runs) == 1
        identical = _outputs(sides[i]) == _outputs(sides[j])
        tests = None
        if single and not identical:
            tests = {
                name: paired_tests(counted[i][name][0], counted[j][name][0], score) for name, score in SCORES.items()
            }
        drafts.append((sides[i], sides[j], identical, differences, tests))
    tested = [draft for draft in drafts if not draft[2]]
    adjusted = {
        name: iter(holm([t[name].randomization if t else d[name].p for _, _, _, d, t in tested])) for name in SCORES
    }
    reports = []
    for better, worse, identical, differences, tests in drafts:
        p = {} if identical else {name: next(adjusted[name]) for name in SCORES}
        verdict = _verdict(better, worse, differences, p, pairs=len(tested))
        reports.append(PairReport(better.name, worse.name, identical, differences, tests, p, verdict))
    return reports


def _outputs(side: Side) -> list[list[str]]:
    return sorted(run.translations for run in side.runs)


def _verdict(
    better: Side, worse: Side, differences: Mapping[str, Difference], p: Mapping[str, float], *, pairs: int
) -> str:
    """One pair in plain words."""
    if not p:
        return f"{better.name} and {worse.name} are identical: every translation is the same."
    bleu = differences["BLEU"]
    figures = f"{_signed(bleu, 'BLEU')}, {_p(p['BLEU'])}{f' ({pairs} pairs: Holm)' if pairs > 1 else ''}"
    circumstances = f"{_seeds(better, worse)}; {_parameters(better, worse)}"
    if p["BLEU"] < ALPHA:
        verdict = f"{better.name} is better than {worse.name}: {figures}, {circumstances}."
    else:
        verdict = f"{better.name} and {worse.name} cannot be told apart: {figures} for {better.name}, {circumstances}."
    if p["chrF"] < ALPHA and (differences["chrF"].value < 0 or p["BLEU"] >= ALPHA):
        other = better if differences["chrF"].value > 0 else worse
        verdict += f" By chrF {other.name} is better: {_signed(differences['chrF'], 'chrF')}, {_p(p['chrF'])}."
    return verdict


def _signed(found: Difference, metric: str) -> str:
    """With its sign; a minus as typographers write it."""
    low, high = found.interval
    return f"{found.value:+.1f} {metric} [{low:.1f}, {high:.1f}]".replace("-", "−")


def _p(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.{3 if p < 0.1 else 2}f}"


def _seeds(a: Side, b: Side) -> str:
    first, second = len(a.runs), len(b.runs)
    if first == second:
        return "one seed each" if first == 1 else f"{first} seeds each"
    return f"{first} and {second} seeds"


def _parameters(better: Side, worse: Side) -> str:
    ratio = _mean(better, "params") / max(_mean(worse, "params"), 1)
    if abs(ratio - 1) < 0.005:
        return "equally many parameters"
    return f"{ratio:.{1 if abs(ratio - 1) >= 0.05 else 2}f}× the parameters"


def _mean(side: Side, key: str) -> float:
    return float(np.mean([run.results[key] for run in side.runs]))


# ---- fairness


def _facts(test_set: TestSet, sides: Sequence[Side]) -> list[Fact]:
    """What was compared with what, side by side."""

    def fact(name: str, read: Callable[[Run], Any], form: Callable[[Any], str] = str) -> Fact:
        values = [[_known(read, run) for run in side.runs] for side in sides]
        return Fact(name, [_written(own, form) for own in values], len({str(v) for own in values for v in own}) == 1)

    number: Callable[[float], str] = "{:,.0f}".format
    return [
        fact("Model", lambda run: run.results["model"]),
        fact("Parameters", lambda run: run.results["params"], number),
        fact("Training data", lambda run: f"{run.results['data']} {run.results['data_fingerprint'][:8]}"),
        fact("Tokenizer", lambda run: run.results["tokenizer_hash"][:8]),
        fact("Test set", lambda _: f"{test_set.split}, {len(test_set.sources):,} sentences"),
        fact("Updates", lambda run: run.results["steps"], number),
        fact("Epochs", lambda run: run.results["epochs"]),
        fact("Tokens seen", lambda run: run.results["tokens"], number),
        fact("Training, minutes", lambda run: run.results["train_seconds"] / 60, "{:,.1f}".format),
        fact("Training, tokens/s", lambda run: run.results["tokens_per_second"], number),
        fact("Device", lambda run: run.results["device"]),
        fact("Search", lambda run: _search(run.results["search"])),
        fact(
            "Decoding, sentences/s",
            lambda run: len(test_set.sources) / run.results["decode_seconds"][test_set.split],
            "{:,.1f}".format,
        ),
        fact("Weights", lambda run: run.results["weights"]),
        fact("Code", lambda run: run.results["git"]),
    ]


def _known(read: Callable[[Run], Any], run: Run) -> Any:
    """None where a run, of an older version perhaps, does not tell."""
    try:
        return read(run)
    except (KeyError, ZeroDivisionError):
        return None


def _written(values: Sequence[Any], form: Callable[[Any], str]) -> str | None:
    """The values of a side's runs: one, a range of numbers, or all of them."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    if isinstance(known[0], int | float) and form(min(known)) != form(max(known)):
        return f"{form(min(known))} – {form(max(known))}"
    return ", ".join(dict.fromkeys(map(form, known)))


def _search(settings: Mapping[str, Any]) -> str:
    return f"beam {settings['beam']}, length penalty {settings['length_penalty']}" if "beam" in settings else "greedy"


def _warnings(test_set: TestSet, sides: Sequence[Side], signatures: Mapping[str, str]) -> list[str]:
    """Why the verdict may be about something else than the models."""
    runs = [run for side in sides for run in side.runs]
    warnings = []

    def differ(*keys: str) -> bool:
        return len({str([run.results.get(key) for key in keys]) for run in runs}) > 1

    recorded = {run.results["valid"][f"{name.lower()}_signature"] for run in runs for name in SCORES}
    if foreign := sorted(recorded - {*signatures.values()}):
        warnings.append(
            "NOT COMPARABLE as recorded: some results.json hold scores of another kind "
            f"({'; '.join(foreign)}). The scores here are all computed anew."
        )
    if differ("data_fingerprint"):
        warnings.append("Not a fair comparison: the training data differ.")
    if differ("tokenizer_hash"):
        warnings.append("Not a fair comparison: the tokenizers differ, and with them what a token is.")
    key = "steps" if any("tokens" not in run.results for run in runs) else "tokens"
    amounts = {side.name: _mean(side, key) for side in sides}
    most, least = max(amounts, key=amounts.__getitem__), min(amounts, key=amounts.__getitem__)
    if amounts[most] > UNEQUAL * amounts[least]:
        ratio = f"{amounts[most] / amounts[least]:.1f}×" if amounts[least] else "many times"
        what = "tokens" if key == "tokens" else "updates"
        warnings.append(f"Not trained equally long: {most} had {ratio} the {what} of {least}.")
    if differ("search"):
        warnings.append("The searches differ: part of the difference may be theirs.")
    if differ("weights"):
        warnings.append("The weights are chosen differently (best, last or an average of several).")
    for side in sides:
        warnings += _group_warnings(side)
    if all(len(side.runs) == 1 for side in sides):
        warnings.append("One seed each: how far other seeds would scatter is unknown.")
    elif any(len(side.runs) < 5 for side in sides):
        warnings.append("Fewer than five seeds a side: the spread over seeds is itself a rough estimate.")
    if test_set.split == "valid":
        warnings.append("The validation set chose these models: its scores flatter them.")
    if len(test_set.sources) < 100:
        warnings.append(f"Only {len(test_set.sources)} sentences: p-values and intervals are rough.")
    return warnings


def _group_warnings(side: Side) -> list[str]:
    """Runs of one side should differ in their seeds and nothing else."""
    if len(side.runs) == 1:
        return []
    warnings = []
    keys = ("model", "params", "data_fingerprint", "tokenizer_hash", "steps", "weights")
    unequal = [key for key in keys if len({str(run.results.get(key)) for run in side.runs}) > 1]
    if unequal:
        warnings.append(f"The runs of {side.name} differ in more than their seeds: {', '.join(unequal)}.")
    if len({run.results.get("seed") for run in side.runs}) < len(side.runs):
        warnings.append(f"Runs of {side.name} share a seed: their spread over seeds is too small.")
    return warnings


# ---- where they differ


def _bucketings(test_set: TestSet) -> list[buckets.Bucketing]:
    sources, references, counts = test_set.sources, test_set.references, test_set.word_counts
    found = [buckets.by_length(sources)]
    if test_set.tags:
        found.append(buckets.by_tag(test_set.tags))
    if counts is not None:
        found += [buckets.by_rarest_word(sources, counts), buckets.by_unknown_words(sources, counts)]
    found.append(buckets.by_copied_words(sources, references))
    return [bucketing for bucketing in found if len(bucketing.buckets) > 1]


def _bucketing_report(bucketing: buckets.Bucketing, counted: Sequence[SideStatistics]) -> BucketingReport:
    reports = []
    for label, rows in bucketing.buckets.items():
        scores = {
            name: [
                spread(sample([run[rows] for run in side[name]], score, resamples=BUCKET_RESAMPLES)) for side in counted
            ]
            for name, score in SCORES.items()
        }
        reports.append(BucketReport(label, len(rows), scores))
    return BucketingReport(bucketing.title, bucketing.note, reports)


def _examples(test_set: TestSet, sides: Sequence[Side], counted: Sequence[SideStatistics]) -> list[Example]:
    """The sentences with the largest differences in chrF: for two sides half of them for either."""
    values = np.stack([chrf(side["chrF"][0]) for side in counted])
    apart = values.max(0) - values.min(0)
    wins = [np.where(values.argmax(0) == side, apart, 0.0) for side in (0, 1)] if len(sides) == 2 else [apart]
    rows = [
        row
        for gain in wins
        for row in np.argsort(-gain, kind="stable")[: EXAMPLES // len(wins)].tolist()
        if gain[row] > 0
    ]
    return [
        Example(
            line=row + 1,
            source=test_set.sources[row],
            reference=test_set.references[row],
            tag=test_set.tags[row] if test_set.tags else None,
            translations=[side.runs[0].translations[row] for side in sides],
            chrf=values[:, row].tolist(),
        )
        for row in rows
    ]
