"""Run the application until a signal stops it."""

import logging
import signal
import socket
import sys
from collections.abc import Callable

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from heed.errors import HeedError


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket, or raise a HeedError. Port 0 selects any free port."""
    is_ipv6 = ":" in host
    family, dual = (socket.AF_INET6, socket.has_dualstack_ipv6()) if is_ipv6 else (socket.AF_INET, False)
    try:
        if not 0 <= port < 2**16:
            raise OSError("a port is a number from 0 to 65535")
        return socket.create_server((host, port), family=family, backlog=2048, dualstack_ipv6=dual)
    except OSError as error:
        raise HeedError(f"{host}:{port} cannot be used: {error}. Choose another --host or --port.") from error


def run(
    app: FastAPI, listener: socket.socket, *, root_path: str, timeout: float, started: Callable[[], object]
) -> None:
    """Serve until SIGTERM or SIGINT, then finish the accepted requests.

    Args:
        root_path: path of the server behind a reverse proxy.
        timeout: time limit for accepted requests, in seconds.
        started: called as soon as a signal would stop the server cleanly.

    Raises:
        SystemExit: with status 0, after SIGTERM.
        KeyboardInterrupt: after SIGINT.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(message)s")
    config = uvicorn.Config(
        app,
        root_path=root_path,
        http=_Connection,
        log_config=None,
        log_level="warning",
        access_log=False,  # heed.serve.observation logs requests with their ids
        server_header=False,
        timeout_graceful_shutdown=round(timeout) + 5,
    )
    # uvicorn raises the signal again for the previous handler.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    started()
    uvicorn.Server(config).run(sockets=[listener])


class _Connection(H11Protocol):
    """A connection that ends a request whose body is not HTTP without an error in the log."""

    def send_400_response(self, msg: str) -> None:
        """Respond to invalid HTTP. If it is the body of a request, end this request too."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()
