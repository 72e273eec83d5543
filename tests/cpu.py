"""pytest plugin: the CPU seconds of each test, its fixtures and finished child processes included.

Wall-clock time depends on what else the machine does; CPU seconds hardly do.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import forkserver

SLOWEST = 20
"""Tests that the summary lists."""


def _used() -> float:
    return sum(os.times()[:4]) + forkserver.cpu_seconds


class CPUReport:
    """Measure the tests of this process, collect the numbers of xdist's workers, and write or print them."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._tests: dict[str, float] = {}
        self._total = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        before = _used()
        result = yield
        self._tests[item.nodeid] = _used() - before
        return result

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        # xdist's workers, which report for themselves, are children of this process.
        runs_tests = hasattr(session.config, "workerinput") or not session.config.getoption("numprocesses", None)
        self._total += _used() if runs_tests else sum(os.times()[:2])
        if (output := getattr(session.config, "workeroutput", None)) is not None:
            output["cpu"] = {"total": self._total, "tests": self._tests}

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        if cpu := getattr(node, "workeroutput", {}).get("cpu"):
            self._total += cpu["total"]
            self._tests.update(cpu["tests"])

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._file:
            self._file.write_text(json.dumps({"total": self._total, "tests": self._tests}, indent=1), encoding="utf-8")
            return
        in_tests = sum(self._tests.values())
        terminalreporter.line(f"CPU seconds: {self._total:.0f} ({in_tests:.0f} in tests)")
        slowest = sorted(self._tests.items(), key=lambda item: -item[1])
        for name, seconds in slowest[:SLOWEST]:
            if seconds >= 1:
                terminalreporter.line(f"{seconds:7.1f} {name}")
