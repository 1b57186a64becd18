"""The files of the machine under inspection: read-only, never blocking, never leaving the root folder."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from typing import Optional

MAX_LINKS = 40
MAX_FILE = 4 * 2**20
MAX_NAMES = 200_000
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)


class Unreadable(Exception):
    """Something is there and can't be read; `str()` names it and the reason. Absent things don't raise this."""


def shown(text: str) -> str:
    """A file name as it may be printed and encoded: bytes that are no UTF-8 become U+FFFD."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class Tree:
    """A folder that stands for '/'. Paths given and returned are absolute inside it."""

    def __init__(self, root: str = "/") -> None:
        self.root = os.path.abspath(root)
        self.live = self.root == "/"
        self._folders: dict[str, str] = {}  # real paths of folders in a tree, which nobody changes while we look

    def outside(self, path: str) -> str:
        """Where `path` is for the operating system, every link followed inside the root. Raises Unreadable, OSError."""
        return path if self.live else self.root + self.resolve(path)

    def resolve(self, path: str) -> str:
        """The real path of `path` inside the tree, also where its last parts don't exist. Raises Unreadable."""
        if self.live:
            return os.path.realpath(path)
        folder, _, name = path.rpartition("/")
        if name in ("", ".", ".."):
            return self._walk(path, follow_last=True)
        if folder not in self._folders:
            self._folders[folder] = self._walk(folder, follow_last=True)
        return self._walk(name, follow_last=True, start=self._folders[folder])

    def _walk(self, path: str, *, follow_last: bool, start: str = "") -> str:
        todo = [part for part in path.split("/") if part not in ("", ".")][::-1]
        done = [part for part in start.split("/") if part]
        links = 0
        while todo:
            part = todo.pop()
            if part == "..":
                del done[-1:]
                continue
            place = "/".join([self.root, *done, part])
            try:
                target = os.readlink(place) if todo or follow_last else None
            except (OSError, ValueError):
                target = None  # no link, or not there
            if target is None:
                done.append(part)
                continue
            links += 1
            if links > MAX_LINKS:
                raise Unreadable(f"{shown(path)}: too many links")
            if target.startswith("/"):
                done = []
            todo += [piece for piece in target.split("/") if piece not in ("", ".")][::-1]
        return "/" + "/".join(done)

    def stat(self, path: str) -> Optional[os.stat_result]:
        """The status of what `path` leads to; None where nothing is there. Raises Unreadable."""
        try:
            return os.stat(self.outside(path), follow_symlinks=self.live)
        except OSError as failure:
            self._check_absent(path, failure)
            return None
        except ValueError as failure:
            raise Unreadable(f"{shown(path)!r}: {failure}") from failure

    def _check_absent(self, path: str, failure: OSError) -> None:
        if failure.errno in _ABSENT:
            return
        raise Unreadable(f"{shown(path)}: {failure.strerror}") from failure

    def exists(self, path: str) -> bool:
        """Is something there? Raises Unreadable where that can't be told."""
        return self.stat(path) is not None

    def there(self, path: str) -> bool:
        """As exists, with False also where that can't be told: for hints, never for a verdict."""
        try:
            return self.exists(path)
        except Unreadable:
            return False

    def is_file(self, path: str) -> bool:
        """Is it a regular file? Raises Unreadable."""
        found = self.stat(path)
        return found is not None and stat.S_ISREG(found.st_mode)

    def is_dir(self, path: str) -> bool:
        """Is it a folder? Raises Unreadable."""
        found = self.stat(path)
        return found is not None and stat.S_ISDIR(found.st_mode)

    def open(self, path: str) -> Optional[int]:
        """A descriptor of a regular file, or None where there is none. Raises Unreadable for all else there."""
        try:
            place = self.outside(path)
            # A look first: opening a fifo, a terminal or a watchdog has effects that fstat comes too late for.
            if not stat.S_ISREG(os.stat(place, follow_symlinks=self.live).st_mode):
                raise Unreadable(f"{shown(path)}: not a regular file")
            flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            return os.open(place, flags if self.live else flags | os.O_NOFOLLOW)
        except OSError as failure:
            self._check_absent(path, failure)
            return None
        except ValueError as failure:
            raise Unreadable(f"{shown(path)!r}: {failure}") from failure

    def read_bytes(self, path: str, cap: int = MAX_FILE) -> Optional[bytes]:
        """The file's bytes, at most `cap` of them; None where there is no such file. Raises Unreadable."""
        handle = self.open(path)
        if handle is None:
            return None
        try:
            size = os.fstat(handle).st_size
            data = os.read(handle, min(cap, size + 1 if size else 1 << 16))
            if size and len(data) == size:
                return data
            parts, left = [data], cap - len(data)
            while data and left > 0:  # files of /proc come in pieces and have no size
                data = os.read(handle, min(left, 1 << 20))
                parts.append(data)
                left -= len(data)
            return b"".join(parts)
        except OSError as failure:
            raise Unreadable(f"{shown(path)}: {failure.strerror}") from failure
        finally:
            os.close(handle)

    def read_text(self, path: str, cap: int = MAX_FILE) -> Optional[str]:
        """The file's text, what is no UTF-8 replaced, NULs as spaces. As read_bytes otherwise."""
        data = self.read_bytes(path, cap)
        return None if data is None else data.decode("utf-8", "replace").replace("\0", " ")

    def find_text(self, path: str, cap: int = MAX_FILE) -> Optional[str]:
        """As read_text, with None also for what can't be read: for facts that other places tell too."""
        try:
            return self.read_text(path, cap)
        except Unreadable:
            return None

    def names(self, path: str) -> list[str]:
        """The sorted names in a folder; none where there is no such folder. Raises Unreadable."""
        try:
            found = []
            with os.scandir(self.outside(path)) as entries:
                for entry in entries:
                    found.append(entry.name)
                    if len(found) >= MAX_NAMES:
                        raise Unreadable(f"{shown(path)}: more than {MAX_NAMES} entries")
        except OSError as failure:
            self._check_absent(path, failure)
            return []
        except ValueError as failure:
            raise Unreadable(f"{shown(path)!r}: {failure}") from failure
        return sorted(found)

    def find_names(self, path: str) -> list[str]:
        """As names, with none for a folder that can't be read."""
        try:
            return self.names(path)
        except Unreadable:
            return []

    def under(self, path: str, *beginnings: str) -> Iterator[str]:
        """Paths in the folder `path` whose name begins with one of `beginnings`; none where it can't be read."""
        for name in self.find_names(path):
            if name.startswith(beginnings):
                yield f"{path.rstrip('/')}/{name}"

    def link(self, path: str) -> Optional[str]:
        """The text of a link; None where `path` is no link."""
        try:
            return os.readlink(path if self.live else self.root + self._walk(path, follow_last=False))
        except (OSError, ValueError, Unreadable):
            return None
