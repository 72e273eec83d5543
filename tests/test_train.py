"""Complete runs: what they learn and write, and that the number of processes changes nothing."""

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from heed.cli import main as heed
from heed.decoding import BeamSearch
from heed.inference import model_folder
from heed.inference.translator import Translator
from heed.runs.records import read_csv
from heed.training.schedules import Cosine
from tests import forkserver

ROOT = Path(__file__).parent.parent
Run = Callable[..., Path]

TINY = {
    "transformer": ["model=transformer", "model.d_model=32", "model.d_ff=64", "model.num_heads=2"],
    "rnn": ["model=rnn", "model.d_embedding=32", "model.d_model=32"],
}
FAMILIES = ["transformer", pytest.param("rnn", marks=pytest.mark.full)]
LIMITS = ["trainer.max_epochs=null", "trainer.accelerator=cpu"]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Options for a corpus of 40 sentence pairs: digits as letters, and as German words in reverse order."""
    rng = random.Random(7)
    digits, words = "abcdefghij", ["null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun"]
    lines = [[rng.randrange(10) for _ in range(rng.randint(2, 6))] for _ in range(40)]
    (tmp_path / "a.xx").write_text("".join(" ".join(digits[d] for d in line) + "\n" for line in lines))
    (tmp_path / "a.yy").write_text("".join(" ".join(words[d] for d in reversed(line)) + "\n" for line in lines))
    pair = f"[['{tmp_path}/a.xx','{tmp_path}/a.yy']]"
    # Validation and test sets are the training data, to see overfitting.
    return ["data=files", "data.cleaning.drop_leaked=false", *(f"data.{s}={pair}" for s in ("train", "valid", "test"))]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model" / "model.safetensors")


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_overfits_a_tiny_corpus_and_writes_all_files(
    run: Run, files: list[str], family: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run(
        "overfit", *files, *TINY[family], *LIMITS, "model.dropout=0.0", "module.label_smoothing=0.0",
        "optimizer.lr=0.01", "schedule.warmup_steps=30", "trainer.max_steps=240", "trainer.validate_every=240",
        "batching.batch_tokens=150",
    )  # fmt: skip
    results = json.loads((folder / "results.json").read_text())
    assert results["test"]["bleu"] == pytest.approx(100)
    assert results["test"]["loss"] < 0.05
    expected = {"name", "model", "data", "src_lang", "tgt_lang", "seed", "params", "steps", "epochs", "train_seconds",
                "tokens_per_second", "padding", "weights", "valid", "test", "tests", "model_dir", "git",
                "config_digest", "data_digest", "tokenizer_digest"}  # fmt: skip
    assert expected <= set(results)
    assert results["model"] == family
    assert results["steps"] == 240
    assert results["tests"]["test"] == results["test"]
    # Lower-case text is not comparable with published scores.
    assert results["test"]["not_comparable"] == "the references have no upper case"
    err = capsys.readouterr().err
    assert "valid, test: not comparable with published scores: the references have no upper case" in err

    # The BLEU of results.json is sacreBLEU's of the written files.
    translations = folder / "translations"
    command = [sys.executable, "-m", "sacrebleu", "test.ref", "-i", "test.hyp", "-m", "bleu", "-b", "-w", "4"]
    bleu = forkserver.run(command, cwd=translations, capture_output=True, text=True, check=True).stdout
    assert float(bleu) == pytest.approx(results["test"]["bleu"], abs=1e-4)
    assert (translations / "test.src").read_text() == (tmp_path / "a.xx").read_text()

    # The model folder translates from another place and without the data.
    elsewhere = (folder / "model").rename(tmp_path / "elsewhere")
    (tmp_path / "a.xx").unlink()
    loaded = model_folder.load(elsewhere)
    assert loaded.config["family"] == family
    translator = Translator(loaded.model, loaded.tokenizer, BeamSearch(**loaded.config["search"]), batch_tokens=100)
    sources = (translations / "test.src").read_text().splitlines()
    assert translator.translate(sources) == (translations / "test.hyp").read_text().splitlines()


@pytest.mark.full
def test_languages_without_spaces_and_files_with_both_sides(run: Run, tmp_path: Path) -> None:
    rng = random.Random(3)
    for split, count in (("train", 60), ("valid", 8), ("test", 8)):
        numbers = [[rng.randrange(10) for _ in range(rng.randint(2, 6))] for _ in range(count)]
        records = [
            {"en": " ".join(map(str, n)), "zh": "".join("零一二三四五六七八九"[d] for d in n) + "。"} for n in numbers
        ]
        lines = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        (tmp_path / f"{split}.jsonl").write_text(lines, encoding="utf-8")
    data = ["data=files", *(f"data.{split}=['{tmp_path}/{split}.jsonl']" for split in ("train", "valid", "test"))]
    data += ["data.src_field=en", "data.tgt_field=zh"]
    limits = [*LIMITS, "trainer.max_steps=2", "trainer.validate_every=2"]
    results = json.loads((run("zh", *data, *TINY["rnn"], *limits) / "results.json").read_text())
    assert (results["src_lang"], results["tgt_lang"]) == ("en", "zh")
    assert "tok:zh" in results["test"]["bleu_signature"]
    swapped = json.loads((run("en", *data, *TINY["rnn"], *limits, "data.reverse=true") / "results.json").read_text())
    assert (swapped["src_lang"], swapped["tgt_lang"]) == ("zh", "en")
    assert "tok:13a" in swapped["test"]["bleu_signature"]


@pytest.mark.full
@pytest.mark.parametrize("family", FAMILIES)
def test_trains_in_bf16(run: Run, files: list[str], family: str) -> None:
    bf16 = ["trainer.precision=bf16-mixed", "trainer.max_steps=3", "trainer.validate_every=3"]
    folder = run("bf16", *files, *TINY[family], *LIMITS, *bf16)
    # Weights stay in fp32.
    assert {tensor.dtype for tensor in weights(folder).values()} == {torch.float32}
    fp32 = run("fp32", *files, *TINY[family], *LIMITS, "trainer.precision=32-true", *bf16[1:])
    losses = [float(read_csv(folder / "metrics.csv")[-1]["valid_loss"]) for folder in (folder, fp32)]
    assert losses[0] == pytest.approx(losses[1], rel=0.01)


@pytest.mark.full
def test_options_override_the_optimizer_state_of_a_checkpoint(run: Run, files: list[str]) -> None:
    common = [*files, *TINY["transformer"], *LIMITS, "trainer.log_every=1", "trainer.validate_every=3"]
    first = run("first", *common, "trainer.max_steps=3", "schedule=constant", "optimizer.lr=1e-3")
    (checkpoint,) = first.glob("checkpoints/last-*.ckpt")
    options = ["schedule=cosine", "schedule.warmup_steps=0", "optimizer.lr=5e-4", "optimizer.weight_decay=0.25"]
    second = run("second", *common, "trainer.max_steps=6", *options, f"ckpt_path='{checkpoint}'")
    rates = {int(row["step"]): float(row["lr"]) for row in read_csv(second / "metrics.csv") if row["lr"]}
    expected = Cosine(warmup_steps=0, total_steps=6, floor=0.02)
    assert rates == {step: pytest.approx(5e-4 * expected(step - 1)) for step in (4, 5, 6)}
    (last,) = second.glob("checkpoints/last-*.ckpt")
    groups = torch.load(last, weights_only=False)["optimizer_states"][0]["param_groups"]
    decays = {group["kind"]: group["weight_decay"] for group in groups}
    assert decays == {"matrix": 0.25, "embedding": 0.25, "vector": 0.0}


@pytest.mark.full
@pytest.mark.parametrize("name", ["sutskever2014", "bahdanau2015", "luong2015", "vaswani2017", "base_2026"])
def test_the_classics_train(run: Run, name: str) -> None:
    folder = run(name, f"experiment={name}", "debug=smoke", "data.train=300", "data.long=4", "trainer=cpu")
    losses = [float(row["loss"]) for row in read_csv(folder / "metrics.csv") if row["loss"]]
    assert losses[-1] < losses[0]


@pytest.mark.full
def test_two_processes_take_the_same_steps_as_one(run: Run, files: list[str], tmp_path: Path) -> None:
    # Adam divides by the gradient's size, so gradients that are 0 up to rounding would give random updates.
    common = [
        *files, *TINY["transformer"], "logger=none", f"cache_dir={tmp_path / 'cache'}", "batching.batch_tokens=90",
        "trainer.precision=32-true", "optimizer=adamw", "schedule.warmup_steps=1", "batching.device_tokens=96",
        "trainer.max_epochs=null", "trainer.max_steps=6", "trainer.validate_every=6", "tokenizer.bpe_dropout=0.2",
        "module.r_drop=2.0", "module.teacher_forcing=0.5",
    ]  # fmt: skip
    one = run("one", *common, "trainer=cpu")
    two = tmp_path / "runs" / "two"
    command = [sys.executable, "train.py", *common, "trainer=ddp_cpu", "trainer.devices=2", f"hydra.run.dir='{two}'"]
    done = forkserver.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name, tensor in weights(one).items():
        torch.testing.assert_close(tensor, weights(two)[name], rtol=1e-4, atol=1e-6)
    results = [json.loads((folder / "results.json").read_text()) for folder in (one, two)]
    for key in ("bleu", "chrf", "loss"):
        assert results[0]["test"][key] == pytest.approx(results[1]["test"][key], rel=1e-4)
    # Each sentence is translated once, and one folder is written.
    assert (two / "translations" / "test.hyp").read_text().count("\n") == 40
    assert [path.name for path in two.parent.iterdir()].count("two") == 1
    assert len(read_csv(two / "metrics.csv")) == len(read_csv(one / "metrics.csv"))


def test_one_model_of_both_directions(run: Run, files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    search = ["search=mbr", "search.samples=3", "search.beam=2", "search.max_length_factor=1.0"]
    folder = run(
        "both", *files, *TINY["transformer"], *LIMITS, "trainer.max_steps=2", "trainer.validate_every=2",
        "data.both_directions=true", *search,
    )  # fmt: skip
    assert model_folder.load(folder).tokenizer.tags == ("<2yy>", "<2xx>")
    # The model folder supplies the tag and the search settings.
    translations = folder / "translations"
    assert heed(["evaluate", "--model", str(folder), "--src", str(translations / "test.src"),
                 "--ref", str(translations / "test.ref"), "--json"]) == 0  # fmt: skip
    evaluated = json.loads(capsys.readouterr().out)
    results = json.loads((folder / "results.json").read_text())
    assert evaluated["scores"]["BLEU"]["value"] == pytest.approx(results["test"]["bleu"])
    assert evaluated["scores"]["chrF"]["value"] == pytest.approx(results["test"]["chrf"])
