"""``scripts/docs numbers``: where each published number comes from, oldest first."""

import json
import re
import subprocess
from collections.abc import Iterator

from docs.pages import DOCS, ROOT, pages


def published() -> Iterator[str]:
    """Yield a line for each file of docs/results: its date, the commit that wrote it, its pages, its command.

    A page shows numbers of a file by ``<!-- table: NAME … -->`` and ``<!-- value: NAME… -->``, or links to it.
    """
    found = []
    for file in sorted((DOCS / "results").glob("*.json")):
        content = json.loads(file.read_text(encoding="utf-8"))
        command = ("git", "-C", str(ROOT), "log", "-1", "--format=%h %cs", "--", str(file))
        written = (
            subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8").stdout.strip()
            or "not committed"
        )
        shown = re.compile(rf"<!-- \w+: {file.stem}\b|results/{file.name}")
        places = [page.name for page in pages() if shown.search(page.read_text(encoding="utf-8"))]
        dates = re.findall(r"\d{4}-\d\d-\d\d", str(content.get("date", "")))
        found.append(
            (
                min(dates, default="no date"),
                file.stem,
                written,
                ", ".join(places) or "no page",
                content.get("command", "no command"),
            )
        )
    for date, name, written, used, made_by in sorted(found):
        yield f"{date}  {name}  (written: {written}; {used})\n    {made_by}"
