"""Run ``heed train`` as ``python -m heed.launch``; Lightning starts the processes of one run like this."""

import sys

import heed.launch

if __name__ == "__main__":
    heed.launch.main(sys.argv[1:])
