"""``heed serve``: translate over HTTP."""

import argparse
import re
from functools import partial
from pathlib import Path

from heed.cli.arguments import add, load_translator
from heed.cli.lines import read_file, write_lines
from heed.errors import HeedError, missing_package
from heed.serve.settings import LIMITS, ServeSettings, accepted_hosts


def add_options(parser: argparse.ArgumentParser) -> None:
    add(parser, "serve")
    group = parser.add_argument_group("limits")
    for name, text in LIMITS.items():
        default = getattr(ServeSettings, name)
        flag, text = f"--{name.replace('_', '-')}", f"{text} (default: %(default)s)"
        group.add_argument(flag, metavar="N", help=text, type=type(default), default=default)


def run(args: argparse.Namespace) -> None:
    try:
        from heed.serve import server
        from heed.serve.application import create_app
        from heed.serve.models import ServedModel, default_names
    except ImportError as error:
        raise missing_package("heed serve", error.name or "fastapi", "serve") from error

    settings = ServeSettings(
        **{name: getattr(args, name) for name in LIMITS},
        split_sentences=not args.no_split_sentences,
        allowed_origins=frozenset(args.allow_origin),
        hosts=accepted_hosts(args.host, args.allow_origin),
        api_keys=_read_keys(args.api_keys) if args.api_keys else frozenset(),
    )
    if args.root_path and not re.fullmatch(r"(/[^/?#\s]+)+", args.root_path):
        raise HeedError(f"--root-path {args.root_path} must be a path such as /mt, without a slash at its end.")
    names = args.name or default_names(args.model)
    if len(names) != len(args.model):
        raise HeedError(f"There are {len(args.model)} models and {len(names)} names: give --name once per RUN.")
    with server.listen(args.host, args.port) as listener:  # before the models, which take longer to load
        models = [ServedModel(name, load_translator(args, path)) for name, path in zip(names, args.model, strict=True)]
        app = create_app(models, settings)
        host = f"[{args.host}]" if ":" in args.host else args.host
        url = f"http://{host}:{listener.getsockname()[1]}"
        started = partial(write_lines, [f"heed serves {', '.join(names)} at {url} (Ctrl-C to stop)"])
        server.run(app, listener, root_path=args.root_path, timeout=settings.timeout, started=started)


def _read_keys(path: Path) -> frozenset[str]:
    """Return the lines of a file; empty ones and comments (``# …``) do not count."""
    keys = frozenset(line.strip() for line in read_file(path) if line.strip() and not line.strip().startswith("#"))
    if not keys:
        raise HeedError(f"--api-keys {path} has no key: write one per line.")
    return keys
