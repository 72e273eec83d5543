"""Write the generated parts of README.md and docs/ from conf/, the command line and docs/results/.

python scripts/docs            write the pages that have changed
python scripts/docs --check    write nothing; exit status 1 if a page would change
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from docs.pages import ROOT, generate, pages


def main() -> int:
    """Write or check the pages.

    Returns:
        The exit status: 1 if ``--check`` found a page that is out of date.
    """
    parser = argparse.ArgumentParser(
        prog="python scripts/docs", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 if a page would change")
    check = parser.parse_args().check
    changed = [page for page in pages() if generate(page) != page.read_text(encoding="utf-8")]
    for page in changed:
        print(f"{page.relative_to(ROOT)} {'is out of date' if check else 'written'}")
        if not check:
            page.write_text(generate(page), encoding="utf-8")
    return int(check and bool(changed))


if __name__ == "__main__":
    sys.exit(main())
