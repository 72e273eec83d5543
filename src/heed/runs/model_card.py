"""``README.md`` of a model folder: a model card with Hugging Face's front matter."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from heed.evaluation.significance import TESTED, resample, sentence_statistics, spread
from heed.files import write_file, yaml_text
from heed.languages import base_language
from heed.runs.results import direction_of, read_split, scores_by_split

CARD = "README.md"


def write_model_card(
    run: Path,
    results: Mapping[str, Any],
    *,
    directions: Sequence[tuple[str, str]],
    license: str | None,
    base_model: Mapping[str, str | None] | None = None,
) -> None:
    """Write the model card of a run to its model folder, from its results and its translations.

    ``directions`` are pairs of source and target language; ``license`` is, for example, "cc-by-4.0", or None if it is
    not chosen yet; ``base_model`` has the name and the licence of the published model that was fine-tuned, if any.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    splits, folder = scores_by_split(results), run / "model"
    rows = [row for name in splits for row in _score_rows(run, results, name)]
    sources = {name: read_split(run, name, "src") for name in splits}
    example = next((lines[0] for lines in sources.values()), "…")
    size = sum(file.stat().st_size for file in folder.iterdir() if file.name != CARD)
    content = {
        **results,
        "front_matter": _front_matter(directions, results, rows, license or "unknown"),
        "directions": [f"{src or 'unknown'} → {tgt or 'unknown'}" for src, tgt in directions],
        "family": {"rnn": "recurrent network with attention"}.get(results["model"], results["model"]),
        "example": " ".join(example.replace("\\", "").replace('"', "").split()),
        "splits": splits,
        "sentences": {name: len(lines) for name, lines in sources.items()},
        "rows": rows,
        "options": [option for option in results["options"] if not option.startswith("cache_dir=")],
        "size": f"{size / 1e6:,.1f} MB",
        "search": ", ".join(f"{name}={value}" for name, value in results["search"].items()) or "greedy",
        "license": license,
        "base_model": base_model,
    }
    environment = Environment(
        loader=PackageLoader("heed.runs"), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    write_file(folder / CARD, environment.get_template("model_card.md.j2").render(content))


def _front_matter(
    directions: Sequence[tuple[str, str]], results: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], license: str
) -> str:
    """Return the YAML front matter for the Hugging Face hub: language, licence, task, scores."""
    scores = [
        {
            "task": {"type": "translation"},
            "dataset": {"name": f"{results['data']} ({row['split']})", "type": str(results["data"])},
            "metrics": [{"type": row["metric"].lower(), "value": round(row["score"], 2)}],
        }
        for row in rows
    ]
    matter = {
        "language": list(dict.fromkeys(base_language(code) for codes in directions for code in codes if code)),
        "license": license,
        "library_name": "heed",
        "pipeline_tag": "translation",
        "tags": ["translation", str(results["model"])],
        **({"model-index": [{"name": str(results["name"]), "results": scores}]} if scores else {}),
    }
    return yaml_text(matter).strip()


def _score_rows(run: Path, results: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the score of each metric on a data set, with its interval over sentences."""
    translations, references = read_split(run, name, "hyp"), read_split(run, name, "ref")
    statistics = sentence_statistics(translations, references, tgt_lang=direction_of(results, name).tgt_lang)
    scores = scores_by_split(results)[name]
    rows = []
    for label, metric in TESTED.items():
        low, high = spread(resample([statistics[label]], metric, resamples=1_000)).over_sentences
        row = {"split": name, "metric": label, "low": low, "high": high}
        rows.append(row | {"score": scores[label.lower()], "signature": scores[f"{label.lower()}_signature"]})
    return rows
