"""A name has one meaning: no two modules define a constant, a type or a class of the same name."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import heed

SOURCE = Path(heed.__file__).parent


def defined(file: Path) -> Iterator[str]:
    """Yield the public constants, types and classes of a module, but for type variables."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            if isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "TypeVar":
                continue
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))


def test_a_name_has_one_meaning() -> None:
    places = defaultdict(list)
    for file in sorted(SOURCE.rglob("*.py")):
        for name in filter(lambda name: not name.startswith("_"), defined(file)):
            places[name].append(file.relative_to(SOURCE).as_posix())
    assert len(places) > 500
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
