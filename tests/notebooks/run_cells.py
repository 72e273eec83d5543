"""Run a notebook's cells one after the other, and print the number of figures that each has drawn."""

import re
import sys
import warnings
from pathlib import Path

import matplotlib

matplotlib.use("agg")
warnings.filterwarnings("error")
warnings.filterwarnings("ignore", "FigureCanvasAgg is non-interactive")  # at the end of a script: plt.show()

from matplotlib import pyplot as plt  # noqa: E402

path = Path(sys.argv[1])
cells = re.split(r"^# %%", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
code = [cell for cell in cells if not cell.startswith(" [markdown]")]
names = {"__name__": "__main__"}
for number, cell in enumerate(code, start=1):
    before = set(plt.get_fignums())
    exec(compile("#" + cell, f"{path.name}, cell {number}", "exec"), names)
    new = [plt.figure(figure) for figure in sorted({*plt.get_fignums()} - before)]
    assert all(ax.has_data() for figure in new for ax in figure.axes), f"cell {number} has drawn an empty figure"
    print(f"cell {number} of {len(code)}: {len(new)} figures")
