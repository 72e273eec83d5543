"""Write the generated parts and files of README.md and docs/ from conf/, the command line and docs/results/.

python scripts/docs            write the pages and figures that have changed
python scripts/docs --check    write nothing; exit status 1 if a file would change
python scripts/docs numbers    list each published number with its date, commit and command, oldest first
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from docs.pages import ROOT, files
from docs.published import published


def main() -> int:
    """Write or check the pages and figures.

    Returns:
        The exit status: 1 if ``--check`` found a file that is out of date.
    """
    parser = argparse.ArgumentParser(
        prog="python scripts/docs", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 if a file would change")
    parser.add_argument("what", nargs="?", choices=["numbers"], help="list the published numbers instead")
    arguments = parser.parse_args()
    if arguments.what:
        print(*published(), sep="\n")
        return 0
    check = arguments.check
    changed = {
        file: text for file, text in files().items() if not file.exists() or file.read_text(encoding="utf-8") != text
    }
    for file, text in changed.items():
        print(f"{file.relative_to(ROOT)} {'is out of date' if check else 'written'}")
        if not check:
            file.write_text(text, encoding="utf-8")
    return int(check and bool(changed))


if __name__ == "__main__":
    sys.exit(main())
