"""Read files with a size limit, write them completely or not at all, and report a full disk."""

import errno
import glob
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from heed.compat import is_running, process_space, replace, sync_file, sync_folder
from heed.errors import HeedError, MachineError

CONF = next(
    folder
    for folder in (Path(__file__).parents[2] / "conf", Path(__file__).parent / "conf")
    if (folder / "train.yaml").exists()
)
"""The configuration: the top-level folder of a checkout, or ``heed/conf`` of an installed package."""

NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Error numbers of a full disk, a used-up quota, or a file larger than allowed."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn the error of a full disk inside the block into a MachineError that names ``path``."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        raise MachineError(
            f"{path} could not be written ({os.strerror(error.errno)}): make room and try again."
        ) from error


def is_device(path: Path) -> bool:
    """Return whether this is a device or a pipe, which can be written into and must not be replaced.

    /dev/stdout counts, also where it is a link to a regular file.
    """
    is_special = path.exists() and not (path.is_file() or path.is_dir())
    return is_special or path.absolute().parent in (Path("/dev"), Path("/dev/fd"))


@contextmanager
def replacing(path: Path, *, into_devices: bool = False, durable: bool = False) -> Iterator[Path]:
    """Yield a temporary path in the same folder; if the block succeeds, it replaces ``path`` (a file or a folder).

    If the block fails, the temporary file is removed and the old content of ``path`` is kept. ``path`` never holds a
    partly written file: each writer has a temporary path of its own, and the last one to finish decides the content.
    What a killed process left is removed when ``path`` is written again: on its machine at once, elsewhere a day later.

    Args:
        into_devices: if ``path`` is a device or a pipe such as /dev/stdout, yield ``path`` itself.
        durable: wait until the disk has the new content, so that a power cut leaves the old one or the new one.

    Raises:
        HeedError: if ``path`` cannot be written or, without ``into_devices``, is a device.
    """
    if is_device(path):
        if not into_devices:
            raise HeedError(f"{path} is a device or a pipe and cannot be replaced: give another path.")
        with writing(path):
            yield path
        return
    if not path.name:
        raise HeedError(f"{path}/ is a folder that cannot be replaced: give another path.")
    remove_unfinished(path.parent, glob.escape(path.name), min_age=24 * 60 * 60)
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}-{process_space()}-{os.getpid()}.partial")
    try:
        with writing(path):
            yield partial
            if durable:
                for file in (partial, *partial.rglob("*")):
                    if file.is_file():
                        sync_file(file)
            try:
                replace(partial, path)
            except IsADirectoryError as error:
                raise HeedError(f"{path} is a folder: give the path of a file.") from error
            if durable:
                sync_folder(path.parent)
    except OSError as error:
        if error.filename != str(partial):
            raise
        raise MachineError(f"{path} cannot be written: {error.strerror}.") from error
    finally:
        remove(partial)


def write_file(path: Path, content: str | bytes, *, into_devices: bool = False, durable: bool = False) -> None:
    """Write a text in UTF-8, or bytes, to a file completely or not at all, see `replacing`."""
    with replacing(path, into_devices=into_devices, durable=durable) as partial:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)


def remove_unfinished(folder: Path, name: str = "*", *, min_age: float = 0.0) -> None:
    """Delete temporary files of `replacing` that killed processes left in a folder.

    Args:
        name: pattern of the names of the files that they were to replace, or of their paths in the folder ("**/*").
        min_age: seconds since their last change, unless their writer is known to be dead. 0 requires that no other
            process writes these paths.
    """
    for path in list(folder.glob(f"{name}.{'[0-9a-f]' * 8}*.partial")):
        with suppress(OSError):  # its writer has just finished, or another user owns it
            writer = re.search(r"\.[0-9a-f]{8}-([0-9a-f]{8})-(\d+)\.", path.name)
            is_abandoned = writer and writer[1] == process_space() and not is_running(int(writer[2]))
            if is_abandoned or path.stat().st_mtime <= time.time() - min_age:
                remove(path)


def remove(path: Path) -> None:
    """Delete a file or a folder, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def require_room(folder: Path, needed: float, purpose: str, option: str) -> None:
    """Raise a MachineError if the disk of a folder has too few free bytes; ``option`` chooses another folder."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise MachineError(
            f"{folder} has {free / 1e6:,.0f} MB of free space, but {purpose} needs about {needed / 1e6:,.0f} MB: make "
            f"room, or set {option}=DIR to a folder on another disk."
        )


def expand_home(path: str) -> Path:
    """Return a path whose ``~`` or ``~USER`` stands for a home folder; raise a HeedError if there is no such folder."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise HeedError(f"{path}: the home directory does not exist. Write the path without ~.") from error


def built_in_corpus() -> Path:
    """Return the folder of the built-in corpus: ``data/synthetic`` of a checkout, or of the installed package."""
    checkout, package = (Path(__file__).parents[level] / "data" / "synthetic" for level in (2, 0))
    return checkout if checkout.is_dir() else package


def check_regular(path: Path) -> None:
    """Raise a HeedError unless ``path`` is a regular file: reading a pipe or a device may never end."""
    if not path.exists():
        raise HeedError(f"{path} does not exist.")
    if not path.is_file():
        raise HeedError(f"{path} is {'a folder' if path.is_dir() else 'a pipe or a device'} and must be a file.")


YAML_LIMIT = 2**18
"""Maximum bytes of a YAML file. Most that heed writes have a few thousand."""


def read_yaml(path: Path, *, limit: int = YAML_LIMIT) -> dict[str, Any]:
    """Read a YAML file that heed wrote and return its mapping.

    The file is not trusted: its size in bytes (``limit``) and its depth are limited, and aliases, with which a short
    file can describe a huge value, are refused (`yaml_text` writes none).

    Raises:
        HeedError: if the file cannot be read, exceeds the limits or is not a mapping.
    """
    import yaml

    class Loader(yaml.SafeLoader):
        """YAML loader that refuses aliases."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError("it has aliases")
            return super().compose_node(parent, index)

    check_regular(path)
    if path.stat().st_size > limit:
        raise HeedError(f"{path} is larger than {limit:,} bytes: it was not written by heed.")
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), Loader)
    except OSError as error:
        raise HeedError(f"{path} cannot be read: {error.strerror}.") from error
    # ValueError: not UTF-8, or an impossible date.
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())
        raise HeedError(f"{path} is damaged or was not written by heed ({reason[:200]}): copy it again.") from error
    if not isinstance(data, dict):
        raise HeedError(f"{path} is damaged or was not written by heed (it is not a mapping): copy it again.")
    return data


def yaml_text(data: Any) -> str:
    """Return plain data as YAML for `read_yaml`: without aliases, keys in the given order."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """YAML dumper that writes shared objects repeatedly instead of as aliases."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    return yaml.dump(data, Dumper=Dumper, allow_unicode=True, sort_keys=False)
