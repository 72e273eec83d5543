"""``README.md`` of a model folder: a model card with Hugging Face's front matter."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heed.evaluation.buckets import group_by_length, group_by_rarest_word, group_by_tag
from heed.evaluation.significance import METRICS, Statistics, chrf, resample, sentence_statistics, spread
from heed.files import replacing, yaml_text

CARD = "README.md"

MIN_SENTENCES = 20
"""Smaller groups are not listed, because their scores are mostly chance."""
WEAK_GROUPS = 5
RESAMPLES = 1_000


@dataclass(frozen=True)
class CardSplit:
    """A scored data set with its translations."""

    sources: Sequence[str]
    references: Sequence[str]
    translations: Sequence[str]
    scores: Mapping[str, Any]
    """As in ``results.json``."""
    tgt_lang: str
    tags: Sequence[str] | None = None
    """The phenomenon of each sentence; None if the corpus is not annotated."""


def write_model_card(
    folder: Path,
    results: Mapping[str, Any],
    *,
    splits: Mapping[str, CardSplit],
    word_counts: Mapping[str, int],
    directions: Sequence[tuple[str, str]],
    license: str | None = None,
) -> None:
    """Write the model card of a finished run.

    Args:
        folder: the model folder.
        results: the content of results.json.
        splits: the scored data sets by name, as in ``results``.
        word_counts: how often source words occur in the training data.
        directions: source and target language of each direction.
        license: licence of the model, such as "cc-by-4.0"; None if it is not chosen yet.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    statistics = {
        name: sentence_statistics(split.translations, split.references, tgt_lang=split.tgt_lang)
        for name, split in splits.items()
    }
    rows = [row for name, split in splits.items() for row in _score_rows(name, split, statistics[name])]
    # The set that gives the weak spots and the example.
    name = next((name for name in splits if name in results["tests"]), next(iter(splits), ""))
    weak, overall = _weak_groups(splits[name], statistics[name]["chrF"], word_counts) if splits else ([], 0.0)
    size = sum(file.stat().st_size for file in folder.iterdir() if file.name != CARD)
    content = {
        **results,
        "front_matter": _front_matter(directions, results, rows, license or "unknown"),
        "directions": [f"{src or 'unknown'} → {tgt or 'unknown'}" for src, tgt in directions],
        "family": {"rnn": "recurrent network with attention"}.get(results["model"], results["model"]),
        "example": " ".join(splits[name].sources[0].replace("\\", "").replace('"', "").split()) if splits else "…",
        "splits": splits,
        "rows": rows,
        "weak": weak,
        "weak_split": name,
        "overall": overall,
        "least": MIN_SENTENCES,
        "options": [option for option in results["options"] if not option.startswith("cache_dir=")],
        "size": f"{size / 1e6:,.1f} MB",
        "search": ", ".join(f"{name}={value}" for name, value in results["search"].items()) or "greedy",
        "license": license,
    }
    environment = Environment(
        loader=PackageLoader("heed.runs"), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    with replacing(folder / CARD) as file:
        file.write_text(environment.get_template("model_card.md.j2").render(content), encoding="utf-8")


def _front_matter(
    directions: Sequence[tuple[str, str]], results: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], license: str
) -> str:
    """Return the YAML that Hugging Face's hub reads: language, licence, task, scores."""
    scores = [
        {
            "task": {"type": "translation"},
            "dataset": {"name": f"{results['data']} ({row['split']})", "type": str(results["data"])},
            "metrics": [{"type": row["metric"].lower(), "value": round(row["score"], 2)}],
        }
        for row in rows
    ]
    matter = {
        "language": list(dict.fromkeys(language for languages in directions for language in languages if language)),
        "license": license,
        "library_name": "heed",
        "pipeline_tag": "translation",
        "tags": ["translation", str(results["model"])],
        **({"model-index": [{"name": str(results["name"]), "results": scores}]} if scores else {}),
    }
    return yaml_text(matter).strip()


def _score_rows(name: str, split: CardSplit, statistics: Mapping[str, Statistics]) -> list[dict[str, Any]]:
    """Return the score of each metric on a data set, with the interval over its sentences."""
    rows = []
    for label, metric in METRICS.items():
        score, signature = (split.scores[key] for key in (label.lower(), f"{label.lower()}_signature"))
        low, high = spread(resample([statistics[label]], metric, resamples=RESAMPLES)).over_sentences
        rows.append({"split": name, "metric": label, "score": score, "low": low, "high": high, "signature": signature})
    return rows


def _weak_groups(
    split: CardSplit, statistics: Statistics, word_counts: Mapping[str, int]
) -> tuple[list[dict[str, Any]], float]:
    """Return the groups of sentences with the lowest chrF below that of all sentences, and the chrF of all."""
    groupings = [group_by_length(split.sources), group_by_rarest_word(split.sources, word_counts)]
    if split.tags is not None:
        groupings.append(group_by_tag(split.tags))
    overall = float(chrf(statistics.sum(0)))
    weak: list[dict[str, Any]] = [
        {"group": f"{grouping.title}: {label}", "sentences": len(rows), "chrf": score}
        for grouping in groupings
        for label, rows in grouping.buckets.items()
        if len(rows) >= MIN_SENTENCES and (score := float(chrf(statistics[rows].sum(0)))) < overall
    ]
    return sorted(weak, key=lambda group: group["chrf"])[:WEAK_GROUPS], overall
