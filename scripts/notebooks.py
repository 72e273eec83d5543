"""Run notebooks in a Jupyter kernel, and write each as .ipynb and as HTML, with its plots.

This needs packages that heed itself does not need. Install them into an environment of their own:

    python -m venv jupyter
    source jupyter/bin/activate
    pip install -c constraints.txt -e '.[serve]' jupytext nbconvert ipykernel
    python scripts/notebooks.py
"""

import argparse
import sys
import time
from pathlib import Path

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"


def execute(path: Path, out: Path) -> None:
    """Run a notebook in the folder ``out``, and write it there."""
    import jupytext
    import nbformat
    from nbclient import NotebookClient
    from nbconvert import HTMLExporter

    notebook = jupytext.read(path)
    NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": str(out)}}).execute()
    nbformat.write(notebook, out / f"{path.stem}.ipynb")
    page, _ = HTMLExporter().from_notebook_node(notebook, {"metadata": {"name": path.stem}})
    (out / f"{path.stem}.html").write_text(page, encoding="utf-8")


def main() -> None:
    """Run the notebooks that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    text = "a file of notebooks/; without names, all are run"
    parser.add_argument("notebooks", nargs="*", type=Path, default=sorted(NOTEBOOKS.glob("*.py")), help=text)
    parser.add_argument("--out", type=Path, default=Path("build/notebooks"), help="folder (default: %(default)s)")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for path in arguments.notebooks:
        start = time.monotonic()
        try:
            execute(path, arguments.out)
        except ModuleNotFoundError as error:
            sys.exit(f"{error.name} is not installed: `python scripts/notebooks.py --help` says what to install.")
        print(f"{path.name}: {(time.monotonic() - start) / 60:.1f} minutes", flush=True)


if __name__ == "__main__":
    main()
