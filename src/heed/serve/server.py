"""Run the application until a signal stops it."""

import logging
import signal
import socket
import sys
from collections.abc import Callable
from types import FrameType

import uvicorn
from fastapi import FastAPI

from heed.errors import HeedError


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address; port 0 is any free one.

    Raises:
        HeedError: if that is not possible.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(2048)
    except (OSError, OverflowError) as error:
        listener.close()
        raise HeedError(f"{host}:{port} cannot be used: {error}. Choose another --host or --port.") from error
    return listener


def run(app: FastAPI, listener: socket.socket, *, timeout: float, on_start: Callable[[], object]) -> None:
    """Serve until SIGTERM or SIGINT, then finish the accepted requests.

    Args:
        timeout: seconds that accepted requests get.
        on_start: called when requests are answered.

    Raises:
        SystemExit: with status 0, after SIGTERM.
        KeyboardInterrupt: after SIGINT.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(message)s")
    config = uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,  # heed.serve.middleware logs requests with their ids
        server_header=False,
        timeout_graceful_shutdown=round(timeout) + 5,
    )
    # uvicorn raises the signal that stopped it again, for the handler from before.
    before = signal.signal(signal.SIGTERM, _exit)
    try:
        _Server(config, on_start).run(sockets=[listener])
    finally:
        signal.signal(signal.SIGTERM, before)


class _Server(uvicorn.Server):
    """Reports when it is ready."""

    def __init__(self, config: uvicorn.Config, on_start: Callable[[], object]) -> None:
        super().__init__(config)
        self._on_start = on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer requests."""
        await super().startup(sockets)
        if self.started:
            self._on_start()


def _exit(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)
