"""Write the built-in corpus, or another one of the same grammar, as files.

    python -m scripts.grammar --out data/synthetic                the files that heed ships
    python -m scripts.grammar --out DIR --seed 2 --train 48000    another corpus

``heed train data.root=DIR`` trains on the files.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from grammar.corpus import challenge, generate
from grammar.writing import CONTRASTS_PER_TAG, SIZES, write
from heed.errors import HeedError


def main(arguments: list[str]) -> int:
    """Write the corpus, and return the exit status: 2 if the grammar does not have enough sentences."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.grammar", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the files")
    parser.add_argument("--seed", type=int, default=1, help="seed of the grammar (default: %(default)s)")
    for split, size in SIZES.items():
        parser.add_argument(f"--{split}", type=int, default=size, metavar="N", help="pairs (default: %(default)s)")
    parser.add_argument(
        "--contrasts", type=int, default=CONTRASTS_PER_TAG, metavar="N", help="per phenomenon (default: %(default)s)"
    )
    given = parser.parse_args(arguments)
    try:
        splits = generate(seed=given.seed, **{split: getattr(given, split) for split in SIZES})
        contrasts = challenge(seed=given.seed, per_tag=given.contrasts)
    except HeedError as error:
        print(f"scripts.grammar: {error}", file=sys.stderr)
        return 2
    for split, examples in splits.items():
        print(write(given.out, split, examples))
    print(write(given.out, "challenge", contrasts))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
