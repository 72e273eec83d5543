"""The page of a run is written while it trains and at its end, whatever the end, and costs little."""

from pathlib import Path

import pytest

from heed.errors import HeedError
from heed.report.run_page import write_report
from heed.training.callbacks.page import RunPage
from tests.report.html import Page
from tests.report.runs import make_run


def state(run: Path) -> str:
    return Page((run / "report.html").read_text(encoding="utf-8")).find(css_class="state")[0].text


def test_the_page_says_how_the_run_ended(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    page = RunPage(run, write_report)
    page.update()
    assert state(run) == "running"
    with pytest.raises(SystemExit), page.closing():
        raise SystemExit(130)
    assert state(run) == "interrupted"
    assert not (run / "failure.txt").exists()
    with pytest.raises(HeedError), page.closing():
        raise HeedError("Training diverged.")
    assert state(run) == "failed"
    assert (run / "failure.txt").read_text().startswith("Training diverged.\n\nTraceback")


def test_a_run_that_did_not_train_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(HeedError), RunPage(tmp_path, write_report).closing():
        raise HeedError("x")
    assert list(tmp_path.iterdir()) == []


def test_a_page_that_cannot_be_written_ends_no_run(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / "facts.json").write_text("[")
    with (
        pytest.warns(UserWarning, match="cannot be written: A file in .* is damaged"),
        RunPage(run, write_report).closing(),
    ):
        pass
    assert not (run / "report.html").exists()


def test_pages_take_a_limited_share_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page takes 0.5 s here, and validations come every 10 s: after the free ones, each fifth gets a page."""
    clock, pages = [0.0], []

    def write(folder: Path, *, is_running: bool) -> None:
        pages.append(clock[0])
        clock[0] += 0.5

    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    page = RunPage(tmp_path, write)
    for _ in range(500):
        page.update()
        clock[0] += 10
    assert page.seconds == pytest.approx(0.5 * len(pages))
    assert page.seconds <= 0.01 * clock[0] + 1.5
    assert len(pages) > 90
