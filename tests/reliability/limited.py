"""Run ``heed`` or ``train.py`` with limits: ``python limited.py SECONDS CLOSED PROGRAM ARGUMENT...``.

The fuzz test starts it as a forked process (tests/forkserver.py). CLOSED names the closed streams, such as "01".
"""

import faulthandler
import os
import resource
import signal
import sys

import datasets
import huggingface_hub.constants
import torch

from heed import cli, launch

LIMITS = {resource.RLIMIT_DATA: 6 * 2**30, resource.RLIMIT_FSIZE: 2**28, resource.RLIMIT_CORE: 0}


def main() -> None:
    seconds, closed, *sys.argv = sys.argv[1:]
    # The server has read its own environment.
    huggingface_hub.constants.HF_HUB_OFFLINE = datasets.config.HF_HUB_OFFLINE = True
    torch.set_num_threads(1)
    for descriptor in map(int, closed):
        os.close(descriptor)
        setattr(sys, ("stdin", "stdout")[descriptor], None)
    faulthandler.dump_traceback_later(float(seconds), exit=True, file=2)
    faulthandler.enable(2)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for kind, limit in LIMITS.items():
        resource.setrlimit(kind, (limit, limit))
    try:
        sys.exit(cli.main() if sys.argv[0] == "heed" else launch.main())  # type: ignore[func-returns-value]
    finally:
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
        except OSError:
            os._exit(120)  # as the interpreter does


if __name__ == "__main__":
    main()
