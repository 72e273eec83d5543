"""Fixtures: tiny models of both families, and train.py composed and run inside the test process."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from tests import cpu, forkserver, systems, type_checks  # before heed: importing a function of heed adds the checks

# isort: split
import architectures
import pytest
import torch
from hydra.core.global_hydra import GlobalHydra
from hypothesis import settings

from heed import launch
from heed.cli import main
from heed.launch.compose import Command
from heed.launch.compose import compose as launch_compose
from heed.models import build_model
from heed.models.seq2seq import ModelConfig, Seq2Seq
from tests import compositions
from tests.finished import finished as finished

# A shell starts background jobs with SIGINT ignored. The programs that tests start and interrupt would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# On a busy machine any test may exceed the deadline of hypothesis.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


collect_ignore = systems.not_collected()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fuzz-cases", type=int, default=30, help="cases of the fuzz test (default: %(default)s)")
    parser.addoption("--cpu-report", type=Path, metavar="FILE", help="write the CPU seconds of each test as JSON")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        forkserver.begin_session()
        config.add_cleanup(forkserver.end_session)
    compositions.keep_compositions()
    config.pluginmanager.register(cpu.CPUReport(config.getoption("--cpu-report")))


FULL = (
    "benchmark", "experiments", "devices/test_gpu_check.py",
    "docs/test_figures.py", "docs/test_published_models.py", "test_project_files.py",
)  # fmt: skip
"""Tests that only `make test-full` runs: of developers' scripts and files, and of all engines at once."""

FAST = ("functional", "kernels", "layers", "models", "decoding", "training", "exercises")
"""Folders of tests of computation. Those of their tests that are quick are `make test-fast`."""


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Mark tests as full, slow (all that compose a configuration) or fast, and order those that are selected."""
    full = tuple(str(Path(__file__).parent / name) for name in FULL)
    for item in items:
        if str(item.path).startswith(full):
            item.add_marker(pytest.mark.full)
        if {"compose", "run", "command", "finished"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)
        room = item.path.relative_to(Path(__file__).parent).parts[0]
        if room in FAST and not any(map(item.get_closest_marker, ("slow", "reliability", "docs", "browser", "full"))):
            item.add_marker(pytest.mark.fast)
    yield  # deselects by -m
    items[:] = slow_modules_first(items, workers=int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def slow_modules_first(items: list[pytest.Item], *, workers: int) -> list[pytest.Item]:
    """Order tests for xdist, which first gives each worker an equal part and later moves tests from the end of a part.

    Each part begins with its share of the slow modules, so that no worker waits for another one's slow test at the end.
    """
    marks = ("slow", "reliability", "docs", "browser", "full")
    slow = dict.fromkeys(item.path for item in items if any(map(item.get_closest_marker, marks)))
    worker_of = {path: number % workers for number, path in enumerate(slow)}
    quick = [item for item in items if item.path not in slow]
    ordered: list[pytest.Item] = []
    for worker in range(workers):
        ordered += [item for item in items if worker_of.get(item.path) == worker]
        fill = max(0, len(items) * (worker + 1) // workers - len(ordered))
        ordered += quick[:fill]
        del quick[:fill]
    return ordered + quick


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    type_checks.start_test()
    if sys.platform == "win32" and (posix := item.get_closest_marker("posix")):
        pytest.skip(f"Windows lacks {posix.args[0]}")


@pytest.fixture(autouse=True)
def exact(request: pytest.FixtureRequest) -> Iterator[None]:
    """Test formulas, layers and models in float64, so that differences exceed rounding."""
    if {"functional", "kernels", "layers", "models", "test_blocks.py"} & {*request.path.parts[-2:]}:
        torch.manual_seed(0)
        torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


TRANSFORMER = replace(
    architectures.TRANSFORMER, d_model=20, num_heads=5, d_ff=28, decoder_layers=2, dropout=0.1, attention_dropout=0.1,
    activation_dropout=0.1,
)  # fmt: skip
RNN = replace(architectures.RNN, d_embedding=14, d_model=22, layers=2, dropout=0.1)
CONFIGS: dict[str, ModelConfig] = {"transformer": TRANSFORMER, "rnn": RNN}


@pytest.fixture
def tiny_model() -> Callable[..., Seq2Seq]:
    """``tiny_model(family)`` builds a model with random weights, in float64 and eval mode."""

    def build(family: str, *, src_vocab: int = 23, tgt_vocab: int = 29) -> Seq2Seq:
        model = build_model(CONFIGS[family], src_vocab=src_vocab, tgt_vocab=tgt_vocab, joint=False)
        return model.double().eval()

    return build


M = TypeVar("M", bound=torch.nn.Module)


def randomised(module: M, std: float = 0.4) -> M:
    """Return a module in eval mode with all weights random: none is 0 or 1, as norms and biases are at first."""
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=std)
    return module.eval()


@pytest.fixture
def compose() -> Callable[..., Command]:
    """``compose(*words)`` returns what ``train.py WORDS`` asks for, optionally in another folder."""

    def composed(*words: str, folder: Path | None = None) -> Command:
        return launch_compose(words, folder=folder)

    return composed


@pytest.fixture
def run(
    compose: Callable[..., Command], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Path]:
    """``run(name, *overrides)`` trains, tests and writes a run in this process, and returns its folder.

    All tests of a process share the cache.
    """
    cache = tmp_path_factory.getbasetemp() / "cache"

    def trained(name: str, *overrides: str) -> Path:
        folder = tmp_path / "runs" / name
        launch.train(compose("logger=none", f"cache_dir={cache}", *overrides, folder=folder))
        return folder

    return trained


@pytest.fixture
def heed_cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """``heed_cli(command, *options)`` runs ``heed`` and returns exit status, standard output and standard error."""

    def run(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()  # of what came before
        status = main([str(argument) for argument in arguments])
        return (status, *capsys.readouterr())

    return run


@pytest.fixture
def refused(heed_cli: Callable[..., tuple[int, str, str]]) -> Callable[..., str]:
    """``refused(command, *options)`` runs ``heed``, which must fail, and returns the one sentence that it prints."""

    def message(*arguments: object) -> str:
        status, out, err = heed_cli(*arguments)
        assert (status, out, err.count("\n")) == (2, "", 1), err
        return err

    return message


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., tuple[int, str]]]:
    """``command(*arguments)`` runs `python train.py …` in an empty folder and returns exit status and stderr."""

    def run(*arguments: str) -> tuple[int, str]:
        GlobalHydra.instance().clear()
        monkeypatch.setattr(sys, "argv", ["train.py", *arguments])
        try:
            launch.main()
            status = 0
        except SystemExit as stopped:
            status = int(str(stopped.code))
        return status, capsys.readouterr().err

    monkeypatch.chdir(tmp_path)
    before = signal.getsignal(signal.SIGTERM)
    yield run
    signal.signal(signal.SIGTERM, before)
