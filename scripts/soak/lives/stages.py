"""The stages of a life cycle. A stage runs commands of heed and notes what contradicts an oracle."""

import json
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from soak import comparison
from soak.lives import oracles
from soak.lives.life import RUN, Life, RefusedError, option

WORDS: dict[str, tuple[str, ...]] = {
    "export": ("cannot compute", "recurrent", "one per direction"),
    "attend": ("attention",), "align": ("cross-attention", "attention"), "ablate": ("head", "attention"),
    "patch": ("head", "attention", "twins"), "synthesize": ("direction", "language"), "fine_tune": ("init_from",),
    "serve": ("language",), "average": ("checkpoint", "average"), "compare": ("translations", "test"),
    "constrain": ("its vocabulary lacks",),
}  # fmt: skip
"""Words of a stage's own refusals, which need no option of the case: an RNN without attention cannot be attended."""
EXPLODED = 1_000
"""A norm of the gradient that no training has which learns."""


def draw(life: Life, name: str) -> random.Random:
    """Return the random numbers of a stage: a function of the case alone."""
    return random.Random(f"{life.case.seed} {name}")


def examine(life: Life) -> None:
    """Train without interruption, and compute the scores and losses of the run again."""
    done = life.train(at="reference")
    life.events = done.events
    run = life.run()
    life.check(oracles.examined, run, _precision(life), _lines(life))


def _precision(life: Life) -> str:
    return "bf16-mixed" if "bf16" in life.case.features else "32-true"


def _lines(life: Life, count: int = 8) -> list[str]:
    return oracles.read(_stem(life).with_suffix(".src"))[:count]


def _stem(life: Life) -> Path:
    """Return the path of the translations of the first validation set, without its suffix."""
    return life.run() / "translations" / next(iter(oracles.sets_of(life.run())))


def _difference(life: Life, at: str, *, exact: bool) -> list[str]:
    """Return the differences of a run from the uninterrupted one."""
    found = comparison.compare(life.run(at), {}, life.run(), {}, exact=exact)
    if not exact and _precision(life) != "32-true":
        found.weights /= 30
    return found.problems(exact=exact)


def kill(life: Life) -> None:
    """Kill the training up to three times, at random events, and resume it: it equals the uninterrupted one."""
    rng, at = draw(life, "kill"), "killed"
    if rng.random() < 0.5:
        life.own_caches.add(at)  # killed while it is built
    for number in range(rng.randint(1, 3) + 1):
        last = number > 0 and rng.random() < 0.3
        # Half of the kills come when there is something to resume: checkpoints are written in the second half.
        event = None if last else rng.randint(rng.choice([1, life.events // 2 + 1]), max(2, life.events))
        started = _has_checkpoint(life.folder / at)
        done = life.train(*(["resume=true"] if started else []), at=at, kill=event)
        if done.status == 0 or any((life.folder / at / RUN).glob("*/results.json")):
            break
        if not started:  # a run without a checkpoint starts again in a folder of its own
            _remove_unstarted(life.folder / at)
    else:
        done = life.train(*(["resume=true"] if _has_checkpoint(life.folder / at) else []), at=at)
    # A kill after results.json leaves a finished run, perhaps with half a page.
    found = [each for each in _difference(life, at, exact=True) if not (done.status and each.startswith("other files"))]
    life.problems += [f"kill: {each}" for each in found]


def _has_checkpoint(folder: Path) -> bool:
    return any(folder.glob("runs/life/*/checkpoints/*.ckpt"))


def _remove_unstarted(folder: Path) -> None:
    if not _has_checkpoint(folder):
        shutil.rmtree(folder / "runs", ignore_errors=True)


def processes(life: Life) -> None:
    """Train with two processes, from the start or from a checkpoint: the weights differ by rounding.

    A model whose gradients explode makes rounding grow a hundredfold in a step: it must only train.
    """
    rng, two = draw(life, "processes"), ["trainer=ddp_cpu"]
    if rng.random() < 0.5:
        killed = life.train(at="two", kill=life.events // 2).status != 0
        if killed and _has_checkpoint(life.folder / "two"):
            two.append("resume=true")
        else:
            shutil.rmtree(life.folder / "two" / "runs", ignore_errors=True)
    life.train(*two, at="two", ranks=2)
    if oracles.gradient_norm(life.run()) > EXPLODED:
        return
    life.problems += [f"processes: {problem}" for problem in _difference(life, "two", exact=False)]
    life.check(oracles.logged, life.run("two"), life.run(), 1e-3 if _precision(life) == "32-true" else 3e-2)


def average(life: Life) -> None:
    """Average checkpoints, and compute the mean again."""
    run = life.run()
    with suppress(RefusedError):  # of a single checkpoint
        life.heed("average", str(run), "--last", "2", "--out", "mean")
    files = sorted((run / "checkpoints").glob("*.ckpt"))[:3]
    life.heed("average", *map(str, files), "--out", "mean-of-all")
    life.check(oracles.averaged, files, life.folder / "reference" / "mean-of-all")
    life.heed("translate", "mean-of-all", "--input", f"{_stem(life)}.src")


def evaluate(life: Life) -> None:
    """Evaluate the run on its own test set: the scores are those of results.json."""
    stem = _stem(life)
    entry = oracles.sets_of(life.run())[stem.name]
    done = life.heed("evaluate", str(life.run()), "--src", f"{stem}.src", "--ref", f"{stem}.ref", "--json")
    found = json.loads(done.out)["scores"]["BLEU"]["value"]
    if draw(life, "evaluate").random() < 0.5:
        life.heed("evaluate", "--hyp", f"{stem}.hyp", "--ref", f"{stem}.ref", "--metrics", "bleu,chrf,ter,exact-match")
    if entry.get("bleu") is not None and abs(found - entry["bleu"]) > 1e-6:
        life.problems.append(f"evaluate: BLEU {found}, {entry['bleu']} in results.json")


def translate(life: Life) -> None:
    """Translate with a random search: log p is that of score(), and neither order nor batch matters."""
    rng = draw(life, "translate")
    beam = {"beam": rng.choice([1, 2, 4]), "length_penalty": rng.choice([0.0, 0.6, 1.4])}
    sample = {"sample": True, "temperature": rng.choice([0.7, 1.0]), "top_k": rng.choice([None, 5]), "seed": 3}
    mbr = {"mbr": True, "samples": 4, "beam": 2, "utility": rng.choice(["chrf", "bleu"])}
    options: dict[str, Any] = rng.choice([beam, beam, sample, mbr])
    life.check(oracles.searched, life.run(), _lines(life), options)
    words = [word for name, value in options.items() if value not in (None, False) for word in
             (f"--{name.replace('_', '-')}", *([] if value is True else [str(value)]))]  # fmt: skip
    form = rng.choice([["--json"], ["--scores"], ["--n-best", "2"], [], ["--engine", "heed"]])
    form = [] if options.get("beam") == 1 and form[:1] == ["--n-best"] else form
    source = str(_stem(life).with_suffix(".src"))
    command = ["translate", str(life.run()), "--input", source, *words]
    if not life.heed(*command, *form).out:
        life.problems.append(f"translate {words} {form} printed nothing")
    n_best = form if form[:1] == ["--n-best"] else []
    outputs = [life.heed(*command, *n_best, "--json", *more).out for more in ([], ["--batch-tokens", "50"])]
    found, again = ([each for line in output.split("\n")[:-1] for each in json.loads(line)["translations"]]
                    for output in outputs)  # fmt: skip
    # Two hypotheses whose scores differ by rounding may change places.
    other = [pair for pair in zip(found, again, strict=True) if pair[0]["text"] != pair[1]["text"]]
    far = [pair for pair in other if abs(pair[0]["score"] - pair[1]["score"]) > oracles.SCORE_TOLERANCE]
    if far:
        life.problems.append(f"translate {words} {n_best}: {len(far)} translations depend on the batch: {far[0]}")


def constrain(life: Life) -> None:
    """Translate with a prefix and a term of the first reference, and with protected text: translations have them."""
    stem = _stem(life)
    source, reference = (oracles.read(stem.with_suffix(f".{side}"))[0] for side in ("src", "ref"))
    word, target = source.split()[0], reference.split()[-1].strip(".?!")
    (life.folder / "terms.tsv").write_text(f"{word}\t{target}\n", encoding="utf-8")
    command = ["translate", str(life.run()), "--input", f"{stem}.src", "--json"]
    for options in (["--prefix", reference[:6]], ["--terms", str(life.folder / "terms.tsv")]):
        for line in life.heed(*command, *options).out.split("\n")[:-1]:
            found = json.loads(line)
            text = found["translations"][0]["text"]
            holds = text.startswith(reference[:6].strip()) if "--prefix" in options else target.lower() in text.lower()
            if not holds and ("--prefix" in options or word in found["source"].split()):
                life.problems.append(f"constrain {options}: {found}")
    spans = ("{name}", "https://example.org/?a=1")
    file = life.folder / "spans.txt"
    file.write_text(f"{source} {spans[0]}\n{spans[1]}, {source}\n", encoding="utf-8")
    for text in life.heed(*command[:2], "--input", str(file), "--protect", "on").out.split("\n")[:-1]:
        if sum(text.count(span) for span in spans) != 1:
            life.problems.append(f"constrain --protect: {text}")
    file.write_text(f"<p>{source} <b>{source}</b><br>{source}</p>", encoding="utf-8")
    page = life.heed(*command[:2], "--input", str(file), "--format", "html").out
    if any(page.count(tag) != 1 for tag in ("<p>", "<b>", "</b>", "<br>", "</p>")):
        life.problems.append(f"constrain --format html: {page}")


def score(life: Life) -> None:
    """Score the references: as many numbers as lines, all below 0."""
    stem = _stem(life)
    done = life.heed("score", str(life.run()), "--src", f"{stem}.src", "--tgt", f"{stem}.ref")
    numbers = [float(line) for line in done.out.split()]
    if len(numbers) != len(oracles.read(stem.with_suffix(".src"))) or max(numbers) >= 0:
        life.problems.append(f"score: {numbers}")


def export(life: Life) -> None:
    """Export for one engine; heed checks it, and a greedy search there finds the same. What can come back does."""
    to = draw(life, "export").choice(["ctranslate2", "ctranslate2", "huggingface", "page"])
    out = f"exported-{to}" + (".html" if to == "page" else "")
    life.heed("export", str(life.run()), "--to", to, "--out", out)
    if to == "ctranslate2":
        life.check(oracles.exported, life.run(), life.folder / "reference" / out, _lines(life))
    if to == "huggingface":
        life.heed("import", out, "--out", "imported")
        life.check(oracles.imported, life.run(), life.folder / "reference" / "imported", _lines(life))


def attend(life: Life) -> None:
    """Write a page and an archive of attention maps: each row is a distribution."""
    life.heed("attend", str(life.run()), *_lines(life, 2), "--npz", "maps.npz", "--out", "attention.html")
    life.check(oracles.attended, life.folder / "reference" / "maps.npz")


def align(life: Life) -> None:
    """Align the references: a line of links for each pair, within the sentences."""
    stem = _stem(life)
    how = draw(life, "align").choice(["target", "source", "intersection", "grow-diag-final-and"])
    done = life.heed("align", str(life.run()), "--src", f"{stem}.src", "--tgt", f"{stem}.ref", "--symmetrize", how)
    sides = [[len(line.split()) for line in oracles.read(stem.with_suffix(side))] for side in (".src", ".ref")]
    lines = done.out.split("\n")[:-1]
    links = [[tuple(map(int, link.split("-"))) for link in line.split()] for line in lines]
    outside = [link for each, m, n in zip(links, *sides, strict=False) for link in each if link[0] >= m or link[1] >= n]
    if len(lines) != len(sides[0]) or outside:
        life.problems.append(f"align: {len(lines)} lines for {len(sides[0])} pairs, outside of them {outside[:3]}")


def ablate(life: Life) -> None:
    """Measure each head on a few sentences."""
    stem = life.folder / "few"
    for side in ("src", "ref"):
        lines = oracles.read(_stem(life).with_suffix(f".{side}"))[:3]
        stem.with_suffix(f".{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    life.heed("ablate", str(life.run()), "--src", f"{stem}.src", "--ref", f"{stem}.ref", "--challenge", "none")


def patch(life: Life) -> None:
    """Patch attention on a challenge set."""
    life.heed("patch", str(life.run()), "--challenge", str(life.corpus / "challenge.jsonl"))


def compare(life: Life) -> None:
    """Compare with a run of another seed."""
    life.train("seed=11", at="other")
    life.heed("compare", str(life.run()), str(life.run("other")), "--challenge", "none")


def report(life: Life) -> None:
    """Write the page of the run, and list it."""
    life.heed("report", str(life.run()))
    listed = json.loads(life.heed("runs", str(life.run()), "--json").out)
    if len(listed) != 1 or not (life.run() / "report.html").exists():
        life.problems.append(f"report: {len(listed)} runs listed")


def fine_tune(life: Life) -> None:
    """Start from the weights of the run, with its text and a few of its options."""
    inherited = ("model", "tokenizer", "init_from", "data.src_lang")
    words = [word for word in life.overrides if not option(word).startswith(inherited)]
    life.heed("train", *words, f"init_from={life.run()}", "optimizer.lr=1e-4", at="tuned")
    life.check(oracles.examined, life.run("tuned"), _precision(life), _lines(life))


def serve(life: Life) -> None:
    """Ask a server, well and badly."""
    life.check(oracles.served, life.run(), _lines(life, 4))


def search(life: Life) -> None:
    """Search over two trials."""
    ranges = ["optimizer.lr=choice(1e-3,2e-3)", "sweep.n_trials=2", "sweep.confirm=null", "sweep=default"]
    life.train("-m", *ranges, at="search")
    if not (folder := next((life.folder / "search").glob("runs/*/sweep.html"), None)):
        life.problems.append(f"search: no page in {[str(path) for path in (life.folder / 'search').glob('runs/*')]}")
    else:
        life.heed("sweep", str(folder.parent), at="search")


def check(life: Life) -> None:
    """Examine the corpus, and prepare it twice: the second time, nothing is left to do."""
    words = [word for word in life.overrides if not word.startswith("logger")]
    life.heed("check", *words, at="checked")
    life.heed("prepare", *words, at="checked")


def synthesize(life: Life) -> None:
    """Translate the training text, and train on it."""
    life.heed("synthesize", "--model", str(life.run()), "--src", str(life.tests) + ".en", "--out", "made")
    made = life.folder / "reference" / "made" / "1.jsonl"
    if not made.exists() or len(oracles.read(made)) > len(oracles.read(life.tests.with_suffix(".en"))):
        life.problems.append("synthesize: no pairs, or more than sources")


def reproduce(life: Life) -> None:
    """Train again with a cache in which a similar corpus was prepared: the same options give the same bits."""
    others = ["data.max_train=100", "tokenizer.vocab_size=380", "tokenizer.character_coverage=0.99", "seed=4"]
    neighbour = draw(life, "reproduce").choice(others)
    life.own_caches.add("again")
    with suppress(RefusedError):
        life.heed("prepare", *[w for w in life.overrides if option(w) != option(neighbour)], neighbour, at="again")
    life.train(at="again")
    life.problems += [f"reproduce after {neighbour}: {found}" for found in _difference(life, "again", exact=True)]


def changed_text(life: Life) -> None:
    """Stop a training, exchange two targets, which leaves the tokenizer as it is, and resume it: that is refused."""
    corpus = life.folder / "corpus"
    shutil.copytree(life.corpus, corpus)
    words = [word.replace(str(life.corpus), str(corpus)) for word in life.overrides]
    life.heed("train", *words, at="changed", kill=life.events * 3 // 4)
    if not _has_checkpoint(life.folder / "changed") or any((life.folder / "changed" / RUN).glob("*/results.json")):
        return
    targets = oracles.read(corpus / "train.de")
    targets[25], targets[35] = targets[35], targets[25]
    records = [json.loads(line) for line in oracles.read(corpus / "scored.jsonl")]
    records[25]["tgt"], records[35]["tgt"] = records[35]["tgt"], records[25]["tgt"]
    for name, lines in (("train.de", targets), ("scored.jsonl", map(json.dumps, records))):
        (corpus / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    try:
        life.heed("train", *words, "resume=true", at="changed")
    except RefusedError:
        return
    if not any(word.startswith("data=synthetic") for word in words):
        life.problems.append("changed_text: a run was resumed with another text")


STAGES: dict[str, Callable[[Life], None]] = {
    act.__name__: act
    for act in (ablate, align, attend, average, changed_text, check, compare, constrain, evaluate, export, fine_tune,
                kill, patch, processes, report, reproduce, score, search, serve, synthesize, translate)
}  # fmt: skip
"""By name."""
COSTLY = ("search", "compare", "fine_tune", "processes", "reproduce", "changed_text")
"""Stages that train again: at most one of them in a case."""
