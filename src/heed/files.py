"""Files that are read with a bound and written whole or not at all, and a full disk as a sentence."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from heed.errors import HeedError

NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""The disk, a quota, or the largest allowed file is used up."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Makes a full disk met inside the block a HeedError that names ``path``."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        raise HeedError(
            f"{path} could not be written ({os.strerror(error.errno)}): make room and try again."
        ) from error


@contextmanager
def replacing(path: Path, *, into_devices: bool = False) -> Iterator[Path]:
    """A path beside ``path`` to write to, a file or a folder; it takes the place of ``path`` if the block succeeds.

    Otherwise it is removed: nothing half-written ever stands under ``path``, and what stood there before is kept.

    Args:
        into_devices: write to a device or a pipe (/dev/stdout) as it is: for a path that the user names.

    Raises:
        HeedError: if nothing can be written there.
    """
    if into_devices and path.exists() and not (path.is_file() or path.is_dir()):
        with writing(path):
            yield path
        return
    if not path.name:
        raise HeedError(f"{path}/ is a folder that cannot be replaced: give a name to write to.")
    partial = path.with_name(f"{path.name}.partial")
    remove(partial)
    try:
        with writing(path):
            yield partial
            try:
                partial.replace(path)
            except IsADirectoryError as error:
                raise HeedError(f"{path} is a folder: give the name of a file.") from error
    except OSError as error:
        if error.filename != str(partial):
            raise
        raise HeedError(f"{path} cannot be written: {error.strerror}.") from error
    finally:
        remove(partial)


def remove(path: Path) -> None:
    """Delete a file or a folder, if there is one."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def check_regular(path: Path) -> None:
    """Refuse what cannot be opened as a file: a folder, or a pipe or device, from which a program may read for ever."""
    if not path.exists():
        raise HeedError(f"{path} does not exist.")
    if not path.is_file():
        raise HeedError(f"{path} is {'a folder' if path.is_dir() else 'a pipe or a device'} and must be a file.")


YAML_LIMIT = 2**18
"""Bytes of a YAML file: heed's own have a few thousand."""


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping that a YAML file of heed holds.

    Foreign files are refused rather than worked through: their size and depth are bounded, and aliases, by which a
    short file can describe a huge value, are not read (`yaml_text` writes none).

    Raises:
        HeedError: for anything that is not such a file.
    """
    import yaml

    class Loader(yaml.SafeLoader):
        """Refuses aliases."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError("it has aliases")
            return super().compose_node(parent, index)

    check_regular(path)
    try:
        if path.stat().st_size > YAML_LIMIT:
            raise HeedError(f"{path} is larger than {YAML_LIMIT:,} bytes: it was not written by heed.")
        data = yaml.load(path.read_text(encoding="utf-8"), Loader)
    except HeedError:
        raise
    except OSError as error:
        raise HeedError(f"{path} cannot be read: {error.strerror}.") from error
    # ValueError: not UTF-8, or a date that no calendar has.
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())
        raise HeedError(f"{path} is damaged or was not written by heed ({reason[:200]}): copy it again.") from error
    if not isinstance(data, dict):
        raise HeedError(f"{path} is damaged or was not written by heed (it holds no settings): copy it again.")
    return data


def yaml_text(data: Any) -> str:
    """Plain data as YAML that `read_yaml` reads: without aliases, in the order given."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes equal parts out again."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    return yaml.dump(data, Dumper=Dumper, allow_unicode=True, sort_keys=False)


COMPRESSED = {
    b"\x1f\x8b": "gzip -dc",
    b"\x28\xb5\x2f\xfd": "zstd -dc",
    b"\xfd7zXZ\x00": "xz -dc",
    b"BZh": "bzip2 -dc",
    b"\x04\x22\x4d\x18": "lz4 -dc",
    b"PK\x03\x04": "unzip -p",
}
"""How compressed files begin, and what decompresses them to standard output."""


def decompressor(head: bytes) -> str | None:
    """The command that decompresses a file that begins like this; None where it is not compressed."""
    return next((command for magic, command in COMPRESSED.items() if head.startswith(magic)), None)
