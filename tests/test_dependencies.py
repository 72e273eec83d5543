"""pyproject.toml and constraints.txt: which versions are allowed, and which are pinned."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from heed import errors
from heed.errors import HeedError, missing_package
from hydra_plugins.heed_sweeper import HeedSweeper

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DEPENDENCIES = {Requirement(line).name: Requirement(line) for line in PROJECT["dependencies"]}
PINS = [Requirement(line) for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()]


EXTRAS = PROJECT["optional-dependencies"]

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


def test_releases_of_lightning_with_malware_are_refused_and_others_allowed() -> None:
    refused = ("2.6.2", "2.6.3")
    for version in (*refused, "2.6.1", "2.6.4", "2.6.6"):
        assert DEPENDENCIES["lightning"].specifier.contains(version) == (version not in refused)


def test_every_package_that_setup_installs_is_pinned_and_no_other() -> None:
    installed = all_requirements(PROJECT["name"], ["dev"])
    assert {canonicalize_name(pin.name) for pin in PINS} == installed


def test_every_imported_package_is_declared() -> None:
    declared = {canonicalize_name(requirement.name) for requirement in requirements(PROJECT["name"], EXTRAS)}
    distributions = packages_distributions()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in (
                {name.partition(".")[0] for name in names}
                - sys.stdlib_module_names
                - {"heed", "heed_exercises", "IPython"}
            ):
                # IPython only runs heed. hydra_plugins, for example, has no distribution of its own.
                found = {canonicalize_name(one) for one in distributions.get(name, [name])}
                assert found & declared, f"{path.relative_to(ROOT)} imports {name}: declare it in pyproject.toml"


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


TEXTS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "data/README.md")] + [
    path
    for folder in ("src", "conf", "docs", "scripts", ".github")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".py", ".md", ".yaml", ".yml", ".jinja", ".html", ".toml"}
]


def test_nothing_says_to_install_heed_by_its_name() -> None:
    """On PyPI, the name heed belongs to another project, and heed-nmt to nobody."""
    assert len(TEXTS) > 300
    for path in TEXTS:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"\bheed(-nmt)?\[[a-z,]+\]", text), path
        for command in re.findall(r"\bpip3? install ([^`\n#)]*)", text):
            words = re.sub("['\"]", "", command).split()
            assert not {"heed", PROJECT["name"]} & {re.split("[<>=!~]", word)[0] for word in words}, path
            for extra in re.findall(r"\.\[(\w+)\]", command):
                assert extra in PROJECT["optional-dependencies"], path


def test_the_extra_and_the_clone_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "__file__", str(tmp_path / "src" / "heed" / "errors.py"))
    said = "x=y needs optuna, which is not installed: run `pip install -e '.[sweep]'` in"
    assert str(missing_package("x=y", "optuna", "sweep")) == f"{said} a clone of heed."
    (tmp_path / "pyproject.toml").touch()
    assert str(missing_package("x=y", "optuna", "sweep", "choose x=z")) == f"{said} {tmp_path}, or choose x=z."


def test_a_search_without_optuna_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "heed.sweep.search", None)  # importing it fails, as without Optuna
    with pytest.raises(HeedError, match=r"^A sweep needs .*pip install -e '\.\[sweep\]'"):
        HeedSweeper().sweep([])
