"""Add noise to sentences, to measure how a model translates badly written text.

    python scripts/add_noise.py --typos 0.05 --punctuation 0.1 < valid.en > noised.en

The probabilities are the arguments of data.noise. The same sentences and seed give the same text.
"""

import argparse
import sys

from heed.cli.lines import read_lines, standard_input, write_lines
from heed.data.text.noise import Noise, add_noise
from heed.errors import HeedError
from heed.options import find_problems, raise_problems

KINDS = ("upper", "title", "typos", "punctuation")


def main() -> None:
    """Read sentences from standard input, and write them with noise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for kind in KINDS:
        parser.add_argument(f"--{kind}", type=float, default=0.0, metavar="P", help="probability (default: 0)")
    parser.add_argument("--lang", default="", help="language of the sentences, for their capitals (i and İ in Turkish)")
    parser.add_argument("--seed", type=int, default=1)
    arguments = vars(parser.parse_args())
    lang, seed = arguments.pop("lang"), arguments.pop("seed")
    raise_problems(find_problems(Noise, arguments, where="--"))
    sentences = list(read_lines(standard_input(), "Standard input"))
    write_lines(add_noise(Noise(**arguments), sentences, range(len(sentences)), seed=f"{seed}", lang=lang))


if __name__ == "__main__":
    try:
        main()
    except HeedError as error:
        print(f"add_noise: {error}", file=sys.stderr)
        sys.exit(2)
