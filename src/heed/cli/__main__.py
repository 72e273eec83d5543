"""``python -m heed.cli`` is ``heed``."""

import sys

from heed.cli import main

if __name__ == "__main__":
    sys.exit(main())
