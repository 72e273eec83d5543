"""pyproject.toml and constraints.txt: which versions are allowed, and which are pinned."""

import tomllib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DEPENDENCIES = {Requirement(line).name: Requirement(line) for line in PROJECT["dependencies"]}
PINS = [Requirement(line) for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()]


OF_CUDA = ("cuda-", "nvidia-", "triton")
"""Beginnings of the names of packages that torch requires in its CUDA build only. torch pins them."""


def requirements(name: str, extras: Iterable[str]) -> list[Requirement]:
    """Return what a package with these extras requires on Python 3.11, which the pins are for.

    For heed, according to pyproject.toml. Nothing for a package that is not installed: this Python does not need it.
    """
    if name == PROJECT["name"]:
        optional = (line for extra in extras for line in PROJECT["optional-dependencies"][extra])
        return [Requirement(line) for line in (*PROJECT["dependencies"], *optional)]
    try:
        found = [Requirement(line) for line in requires(name) or []]
    except PackageNotFoundError:
        return []
    environments = [
        {"extra": extra, "python_version": "3.11", "python_full_version": "3.11.0"} for extra in ("", *extras)
    ]
    return [
        requirement
        for requirement in found
        if not requirement.name.startswith(OF_CUDA)
        and (not requirement.marker or any(map(requirement.marker.evaluate, environments)))
    ]


def all_requirements(name: str, extras: Iterable[str]) -> set[str]:
    """Return the normalized names of everything that is installed with a package and its extras."""
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [(name, frozenset(extras))]
    while waiting:
        package = waiting.pop()
        if package not in seen:
            seen.add(package)
            waiting += [(canonicalize_name(found.name), frozenset(found.extras)) for found in requirements(*package)]
    return {package for package, _ in seen} - {name}


@pytest.mark.parametrize("version", ["2.6.2", "2.6.3"])
def test_releases_of_lightning_with_malware_are_refused(version: str) -> None:
    assert not DEPENDENCIES["lightning"].specifier.contains(version)


@pytest.mark.parametrize("version", ["2.6.1", "2.6.4", "2.6.6"])
def test_other_releases_of_lightning_are_allowed(version: str) -> None:
    assert DEPENDENCIES["lightning"].specifier.contains(version)


def test_every_package_that_setup_installs_is_pinned_and_no_other() -> None:
    installed = all_requirements("heed", ["dev"])
    assert {canonicalize_name(pin.name) for pin in PINS} == installed


def test_pins_are_exact_and_allowed_by_pyproject() -> None:
    for pin in PINS:
        (specifier,) = pin.specifier
        assert specifier.operator == "=="
        if pin.name in DEPENDENCIES:
            assert DEPENDENCIES[pin.name].specifier.contains(specifier.version), pin


def test_the_lowest_python_is_the_same_everywhere() -> None:
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    assert PROJECT["requires-python"] == ">=3.11"
    assert tools["ruff"]["target-version"] == "py311"
    assert tools["mypy"]["python_version"] == "3.11"
