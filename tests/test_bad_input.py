"""Errors of the user end with exit status 2 and a message that says what is wrong, where, and what to do."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from heed.errors import HeedError
from heed.files import replacing, writing
from heed.inference import model_folder
from heed.launch.compose import compose
from heed.launch.plan import check_options, settle
from heed.launch.run import build
from heed.runs.checkpoints import Selection
from tests.damage import largest_file

Command = Callable[..., tuple[int, str]]
ErrorOf = Callable[..., str]

TINY = ["model=rnn", "model.d_embedding=8", "model.d_model=8", "trainer=cpu", "trainer.max_epochs=null",
        "trainer.max_steps=2", "trainer.validate_every=1", "callbacks.attention_maps=null", "logger=none",
        "search=greedy", "weights=last", "batching.batch_tokens=40"]  # fmt: skip


@pytest.fixture
def error_of(command: Command) -> Callable[..., str]:
    """``error_of(*arguments)`` runs a command that must fail and returns its error message."""

    def message(*arguments: str) -> str:
        status, err = command(*arguments)
        assert status == 2, err
        assert "Traceback" not in err
        assert "Error executing job" not in err
        return err.partition("train.py: ")[2].strip()

    return message


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Options to train, validate and test on twelve sentence pairs, in the files a.xx and a.yy."""
    lines = [f"{'a b c d e f'[: 1 + i % 11]} {i}" for i in range(12)]
    (tmp_path / "a.xx").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "a.yy").write_text("".join(f"{line[::-1]}\n" for line in lines))
    pair = f"[['{tmp_path}/a.xx','{tmp_path}/a.yy']]"
    return [
        *TINY,
        "data=files",
        "data.cleaning.drop_leaked=false",
        *(f"data.{s}={pair}" for s in ("train", "valid", "test")),
    ]


# Wrong options, a part of the message, and the same options with a right value.
SETTINGS = [
    (["train.en"], "train.en is not an option: write NAME=VALUE", []),
    (["module.teacher_forcing.k=9"], "is an option of module/teacher_forcing=exponential or inverse_sigmoid",
     ["module/teacher_forcing=exponential", "module.teacher_forcing.k=0.9"]),
    (["data.train=[[a.en,a.de]]"], "Files of your own need data=files.", []),
    (["modle=rnn"], "modle is unknown (did you mean module or model?)", ["model=rnn"]),
    (["model=transfomer"], "model=transfomer is unknown (did you mean model=transformer", ["model=transformer"]),
    (["optimizer.lrr=1"], "optimizer.lrr is unknown (did you mean optimizer.lr", ["optimizer.lr=1"]),
    (["max_steps=5"], "max_steps is unknown (did you mean trainer.max_steps", ["trainer.max_steps=5"]),
    (["model=rnn", "model.d_modle=8"], "did you mean model.d_model", ["model=rnn", "model.d_model=8"]),
    (["model=rnn", "model/atention=dot"], "did you mean model/attention", ["model=rnn", "model/attention=dot"]),
    (["+=."], "+=. is not an option: write NAME=VALUE", None),
    (["@a=1"], "@a=1 is not an option: write NAME=VALUE", ["model=rnn"]),
    (["+model.d_modle=8"], "model.d_modle is unknown (did you mean model.d_model", ["model.d_model=8"]),
    (["trainer.max_steps=abc"], "trainer.max_steps=abc must be an integer >= 1 or null", ["trainer.max_steps=9"]),
    (["trainer.max_steps=0"], "trainer.max_steps=0 must be an integer >= 1 or null", ["trainer.max_steps=1"]),
    *[
        (
            [f"trainer.max_time={wrong}"],
            f"trainer.max_time={wrong} must be a time such as 00:00:05:00 (DD:HH:MM:SS) or null",
            ["trainer.max_time=00:00:05:00"],
        )
        for wrong in ("5", "5m", "00:05:00", "00:00:05:000")
    ],
    (["trainer.max_steps=1.5"], "trainer.max_steps=1.5 must be an integer", ["trainer.max_steps=null"]),
    (["model.dropout=high"], "model.dropout=high must be a number", ["model.dropout=0.0"]),
    (["model.dropout=1.5"], "model.dropout=1.5", ["model.dropout=0.5"]),
    (["model.d_ff=9223372036854775808"], "This model is too large", ["model.d_ff=48"]),
    (["model.d_model=-4"], "model.d_model=-4", ["model.d_model=4"]),
    (["optimizer=muon", "optimizer.newton_schulz=1000000"], "optimizer.newton_schulz=1000000 must be",
     ["optimizer=muon", "optimizer.newton_schulz=6"]),
    (["module.label_smoothing=1.5"], "module.label_smoothing=1.5 must be a number in [0, 1).",
     ["module.label_smoothing=0"]),
    (["module.label_smoothing=much"], "module.label_smoothing=much", ["module.label_smoothing=0.2"]),
    (["optimizer.lr=-1"], "optimizer: Invalid learning rate: -1", ["optimizer.lr=0.1"]),
    (["optimizer.betas=[0.9]"], "optimizer.betas=[0.9] must be a list", ["optimizer.betas=[0.9,0.9]"]),
    (["schedule.warmup_steps=-3"], "schedule.warmup_steps=-3 must be an integer >= 0.",
     ["schedule.warmup_steps=0"]),
    (["batching.device_tokens=many"], "batching.device_tokens=many must be an integer >= 1 or auto",
     ["batching.device_tokens=auto"]),
    (["batching.pool=0"], "batching.pool=0 must be an integer >= 1.", ["batching.pool=10"]),
    (["data.max_train=0"], "data.max_train=0 must be an integer >= 1 or null", ["data.max_train=9"]),
    (["callbacks.ema.decay=1"], "callbacks.ema.decay=1 must be a number in (0, 1) or null",
     ["callbacks.ema.decay=0.9", "weights=ema"]),
    (["callbacks.ema.decay=0"], "callbacks.ema.decay=0 must be a number in (0, 1) or null", ["callbacks.ema=null"]),
    (["+callbacks.mine=3"], "callbacks.mine=3 must be null or an object with callbacks.mine._target_", None),
    (["+callbacks.mine._target_=nowhere.Mine"], "callbacks.mine._target_=nowhere.Mine cannot be imported", None),
    (["+callbacks.mine.x=1"], "callbacks.mine._target_ is missing", None),
    (["logger=[csv,wandbb]"], "logger=wandbb is unknown (did you mean logger=wandb", ["logger=[csv,wandb]"]),
    (["model/positions=learned", "model.positions.max_length=0"], "model.positions.max_length=0 must be",
     ["model/positions=learned", "model.positions.max_length=9"]),
    (["data.train=0"], "data.train=0 must be an integer >= 1.", ["data.train=1"]),
    (["data.reverse=2"], "data.reverse=2 must be true or false", ["data.reverse=true"]),
    (["data.src_lang=fr"], "corpus of English and German: data.src_lang=fr data.tgt_lang=de must be",
     ["data.src_lang=de", "data.tgt_lang=en"]),
    (["data.max_eval_tokens=0"], "data.max_eval_tokens=0 must be an integer >= 1 or null",
     ["data.max_eval_tokens=null"]),
    (["tokenizer.vocab_size=2147483648"], "tokenizer.vocab_size=2147483648 must be auto or an integer in",
     ["tokenizer.vocab_size=2147483647"]),
    (["tokenizer.kind=bep"], "tokenizer.kind=bep must be bpe or unigram", ["tokenizer.kind=bpe"]),
    (["logger=wandb", "logger.wandb.mode=on"], "logger.wandb.mode=on must be auto or online or offline",
     ["logger=wandb", "logger.wandb.mode=offline"]),
    (["data=files"], "data.train must be given", None),
    (["trainer.accelerator=abacus"], "abacus", ["trainer.accelerator=cpu"]),
    (["trainer.precision=bf16-true"], "trainer.precision=bf16-true must be auto or 32-true or bf16-mixed or 16-mixed",
     ["trainer.precision=32"]),
    (["+trainer.max_stepps=3"], "max_stepps", ["+trainer.min_steps=3"]),
    # Each option is right, but not together.
    (["schedule=cosine", "schedule.warmup_steps=9", "schedule.total_steps=9"], "schedule.total_steps=9",
     ["schedule=cosine", "schedule.warmup_steps=9", "schedule.total_steps=10"]),
    (["weights=ema"], "set callbacks.ema.decay", ["weights=ema", "callbacks.ema.decay=0.9"]),
    (["model.num_heads=3"], "model.d_model=128 must be a multiple of", ["model.num_heads=2"]),
    (["experiment=multi30k_quik"], "(did you mean experiment=multi30k_quick", ["experiment=multi30k_quick"]),
    (["model=rnn", "module.compile=true"], "module.compile=true is for transformers",
     ["model=transformer", "module.compile=true"]),
    (["model=rnn,transformer"], "model=rnn,transformer has several values: add -m to train one run for each", None),
    (["data.train=[[a.en,", "a.de]]"], "cut an option at a space: quote all of it, 'data.train=[[a.en, a.de]]'", None),
    (["model.cell=gru"], "model.cell is an option of model=rnn, not of model=transformer: leave it out", None),
    (["optimizer._target_=torch.optim.RMSprop"], "optimizer.betas is unknown to torch.optim.RMSprop (~optimizer.betas",
     ["optimizer._target_=torch.optim.RMSprop", "~optimizer.betas", "~optimizer.fused"]),
    (["resume=runs/none"], "resume=runs/none names no run: give its folder (runs/NAME/TIME)", None),
    (["match=params"], "match=params needs a run to match: train a grid (-m), or give match_to=RUN.", None),
    (["seed=1,2", "match=params", "hydra.launcher._target_=my.Launcher", "-m"],
     "match=params needs a finished run if jobs run in parallel: give match_to=RUN.", None),
    (["-m", "seed=1,2", "--dry-run"], "--dry-run describes one run: leave out -m.", None),
    (["ckpt_path=a", "init_from=b"], "ckpt_path and init_from contradict each other", None),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "message", "right"), SETTINGS, ids=[" ".join(wrong) for wrong, _, _ in SETTINGS])
def test_a_wrong_option(error_of: ErrorOf, tmp_path: Path, wrong: list[str], message: str, right: list[str]) -> None:
    assert message in error_of("logger=none", *wrong)
    # Before data is read, and without leaving a run folder.
    assert not (tmp_path / "data").exists()
    assert not list(tmp_path.glob("runs/*/*"))


@pytest.mark.parametrize("right", [right for _, _, right in SETTINGS if right], ids=" ".join)
@pytest.mark.full
def test_the_same_option_with_a_right_value(compose: Callable[..., Command], tmp_path: Path, right: list[str]) -> None:
    _, parts = check_options(compose("logger=none", *right).options)
    parts["trainer"](folder=tmp_path, selection=Selection(), callbacks=[], loggers=[])


def test_all_wrong_options_are_reported_at_once(error_of: ErrorOf) -> None:
    message = error_of("module.clip_norm=-1", "trainer.log_every=0", "model.dropout=high", "model.positions.merge=3")
    assert [line.partition("=")[0] for line in message.splitlines()] == [
        "model.positions.merge", "model.dropout", "module.clip_norm", "trainer.log_every",
    ]  # fmt: skip


def test_contradictions_in_several_parts_are_reported_at_once(error_of: ErrorOf) -> None:
    message = error_of(
        *("schedule=cosine", "schedule.total_steps=9", "schedule.warmup_steps=9"),
        *("model.d_model=13", "model.norm=none", "model.norm_kind=rms"),
        *("model/positions=rotary", "model.positions.merge=add", "trainer.log_every=0", "search.n_best=99"),
    )
    assert [line.partition("=")[0].partition(" ")[0] for line in message.splitlines()] == [
        "model.positions.merge", "schedule.total_steps", "search.n_best", "trainer.log_every",
    ]  # fmt: skip
    message = error_of("model.d_model=13", "model.norm=none", "model.norm_kind=rms")
    assert [line.partition("=")[0] for line in message.splitlines()] == ["model.d_model", "model.norm_kind"]


def test_all_typos_are_reported_at_once(error_of: ErrorOf) -> None:
    message = error_of("modle=rnn", "optimizer.lrr=1", "optimizer=adaam", "seed=3", "sed=3")
    assert [line.partition(" is unknown")[0] for line in message.splitlines()] == [
        "optimizer=adaam", "modle", "optimizer.lrr", "sed",
    ]  # fmt: skip


def test_a_checkpoint_is_no_model(error_of: ErrorOf, tmp_path: Path) -> None:
    checkpoint = tmp_path / "run" / "checkpoints" / "last-0000001.ckpt"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.touch()
    message = error_of(f"init_from={checkpoint}")
    assert message.startswith(f"{checkpoint} is a checkpoint, not a model: give its run, {tmp_path / 'run'}, which has")


def test_a_misspelt_option_in_a_preset_is_reported(error_of: ErrorOf, tmp_path: Path) -> None:
    (tmp_path / "conf" / "experiment").mkdir(parents=True)
    preset = tmp_path / "conf" / "experiment" / "mine.yaml"
    preset.write_text("# @package _global_\nmodel:\n  dropuot: 0.3\n")
    search_path = f"hydra.searchpath=[file://{tmp_path}/conf]"
    assert "model.dropuot is unknown (did you mean model.dropout" in error_of("experiment=mine", search_path)
    preset.write_text("# @package _global_\nsed: 3\n")
    assert "experiment/mine: sed is unknown (did you mean seed?)" in error_of("experiment=mine", search_path)


def _lengthen(file: Path) -> None:
    """Add a validation pair of 100,000 words a side. Cleaning drops it from the training data."""
    for side in (file, file.with_suffix(".xx")):
        side.write_text(side.read_text() + "word " * 100_000 + "\n")


def _garble(file: Path) -> None:
    lines = file.read_bytes().splitlines(keepends=True)
    lines[4] = b"caf\xe9\n"
    file.write_bytes(b"".join(lines))


DATA = {
    "missing": (Path.unlink, ["a.yy does not exist"]),
    "no UTF-8": (_garble, ["a.yy, line 5", "0xe9", "iconv"]),
    "too long": (_lengthen, ["data.valid, sentence pair 13: ", "more than data.max_eval_tokens=4,096"]),
}


@pytest.mark.parametrize("kind", DATA)
def test_a_bad_corpus(error_of: ErrorOf, files: list[str], tmp_path: Path, kind: str) -> None:
    damage, parts = DATA[kind]
    damage(tmp_path / "a.yy")
    message = error_of(*files)
    assert all(part in message for part in parts), message
    assert not list(tmp_path.glob("runs/*/*"))


@pytest.mark.full
def test_starting_points_that_do_not_fit(command: Command, error_of: ErrorOf, files: list[str], tmp_path: Path) -> None:
    """``ckpt_path=`` and ``init_from=``: another architecture or tokenizer; damaged, foreign, missing; and right."""
    status, err = command(*files, "hydra.run.dir=first")
    assert status == 0, err
    checkpoint = "first/checkpoints/last-0000002.ckpt"
    more = [*files, "trainer.max_steps=3"]
    wider = "model.d_model=10"
    message = error_of(*more, f"ckpt_path={checkpoint}", wider)
    assert f"{checkpoint} holds the weights of another architecture" in message
    assert "there and" in message
    assert "another architecture" in error_of(*more, f"ckpt_path={checkpoint}", "model.attention.score=dot")
    for start in (f"ckpt_path={checkpoint}", "init_from=first"):
        status, err = command(*more, start, f"hydra.run.dir=good-{start[:4]}")
        assert status == 0, err
    message = error_of(*more, f"ckpt_path={checkpoint}", "optimizer=muon")
    assert "the optimizer state of AdamW, which Muon cannot use" in message

    # A tokenizer of the same size, trained on another text.
    for file in ("a.xx", "a.yy"):
        (tmp_path / file).write_text((tmp_path / file).read_text().replace("a", "q"))
    assert "another tokenizer" in error_of(*more, f"ckpt_path={checkpoint}")

    whole = Path(checkpoint).read_bytes()
    for content in (whole[: len(whole) // 2], whole[:-30], b"", b"text"):
        Path("damaged.ckpt").write_bytes(content)
        assert "damaged.ckpt is no checkpoint, or a damaged one" in error_of(*more, "ckpt_path=damaged.ckpt")
    torch.save({"state_dict": {}}, "foreign.ckpt")
    assert "foreign.ckpt is no checkpoint of heed" in error_of(*more, "ckpt_path=foreign.ckpt")
    assert "There is no checkpoint nowhere.ckpt" in error_of(*more, "ckpt_path=nowhere.ckpt")
    assert "There is no folder nowhere" in error_of(*more, "init_from=nowhere")
    assert "no unfinished run" in error_of(*more, "resume=true")


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[None]:
    """Mount a disk of ``size`` bytes at ``folder``."""
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"mounting a small disk is not allowed here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.full
def test_a_full_disk_keeps_what_was_saved(command: Command, error_of: ErrorOf, files: list[str]) -> None:
    """The disk has room for the first checkpoint only: it is kept, and the run resumes from it."""
    wide = [*files, "model.d_embedding=64", "model.d_model=64", "trainer.keep_best=0", "hydra.run.dir=disk/run"]
    status, err = command(*wide, "hydra.run.dir=whole")
    assert status == 0, err
    size = Path("whole/checkpoints/last-0000002.ckpt").stat().st_size
    with small_disk(Path("disk"), int(1.5 * size)):
        status, err = command(*wide)
        assert status == 2, err
        assert "last-0000002.ckpt could not be written (No space left on device)" in err
        assert "resume=" in err
        assert [path.name for path in Path("disk/run/checkpoints").iterdir()] == ["last-0000001.ckpt"]
        subprocess.run(["mount", "-o", f"remount,size={9 * size}", "disk"], check=True)
        status, err = command(*wide, "resume=true")
        assert status == 0, err
        same = [torch.load(f"{run}/checkpoints/last-0000002.ckpt")["state_dict"] for run in ("whole", "disk/run")]
        assert all(torch.equal(tensor, same[1][name]) for name, tensor in same[0].items())


@pytest.mark.full
@pytest.mark.parametrize("what", ["tokenizer", "checkpoint", "model"])
def test_a_file_that_cannot_be_written_is_named_and_removed(
    command: Command, error_of: ErrorOf, files: list[str], what: str
) -> None:
    status, err = command(*files, "hydra.run.dir=good", "cache_dir=good/cache")
    assert status == 0, err
    pattern = {"tokenizer": "cache/tokenizer/*/*.model", "checkpoint": "checkpoints/*", "model": "model/*.safetensors"}
    size = min(file.stat().st_size for file in Path("good").glob(pattern[what]))
    if what == "model":
        folder = model_folder.load("good")
        with largest_file(size - 1), pytest.raises(HeedError, match=r"model.safetensors could not be written"):
            model_folder.save(Path("copy"), folder.model, folder.tokenizer, extra={})
        assert not list(Path("copy").iterdir())
        return
    if what == "tokenizer":  # smaller than .hydra/hydra.yaml
        with largest_file(size - 1), pytest.raises(HeedError, match=r"cache/tokenizer/.* could not be written"):
            build(settle(compose([*files, "cache_dir=cache"])), Path("bad"))
    else:
        with largest_file(size - 1):
            message = error_of(*files, "hydra.run.dir=bad", "cache_dir=good/cache")
        assert "could not be written (File too large)" in message
        assert "bad/checkpoints/" in message
    assert not [path for path in Path.cwd().rglob("*.partial") if path.is_file()]  # the cache's folder is used again
    assert not list(Path("bad").glob("checkpoints/*"))


def test_replacing_keeps_the_old_file_after_an_error(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def fail(error: Exception) -> None:
        with replacing(path) as partial:
            partial.write_text("half")
            raise error

    with pytest.raises(ZeroDivisionError):
        fail(ZeroDivisionError())
    with pytest.raises(FileNotFoundError):
        fail(FileNotFoundError(2, "not a full disk"))
    with (
        pytest.raises(HeedError, match="file could not be written"),
        writing(path),
        Path("/dev/full").open("wb") as full,
    ):
        full.write(bytes(100_000))
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
    assert path.read_text() == "old"
    with replacing(path) as partial:
        partial.write_text("new")
    assert path.read_text() == "new"
