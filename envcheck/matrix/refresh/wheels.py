"""Reads single files out of wheels on the default package index, by ranged requests: no wheel is downloaded whole.

The index is pip's: PIP_INDEX_URL, else what pip's configuration files say, else pip's own default.
"""

from __future__ import annotations

import configparser
import io
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Optional

import requests
from pypi_simple import PYPI_SIMPLE_ENDPOINT, DistributionPackage, PyPISimple

BLOCK = 1 << 18  # 256 KiB a request: a wheel's file list and METADATA are at its end
TIMEOUT = (10, 60)


def pip_setting(name: str) -> Optional[str]:
    """A global setting of pip ('index-url', 'cert'): from the environment, else from its configuration files."""
    told = os.environ.get(f"PIP_{name.replace('-', '_').upper()}")
    if told:
        return told
    files = [Path("/etc/pip.conf"), Path("/etc/xdg/pip/pip.conf"), Path("~/.config/pip/pip.conf").expanduser()]
    if os.environ.get("PIP_CONFIG_FILE"):
        files.append(Path(os.environ["PIP_CONFIG_FILE"]))
    parser = configparser.RawConfigParser()
    parser.read(files)
    return parser.get("global", name, fallback=None)


@contextmanager
def open_index() -> Iterator[PyPISimple]:
    """A client of pip's default index; its session is `client.s`."""
    session = requests.Session()
    certificate = pip_setting("cert")
    if certificate:
        session.verify = certificate
    with PyPISimple(endpoint=pip_setting("index-url") or PYPI_SIMPLE_ENDPOINT, session=session) as client:
        yield client


class RangedFile(io.RawIOBase):
    """A remote file, read by blocks; raises OSError where the server doesn't answer ranges."""

    def __init__(self, session: requests.Session, url: str) -> None:
        self._session = session
        self._url = url
        self._blocks: dict[int, bytes] = {}
        self._position = 0
        reply = session.head(url, timeout=TIMEOUT, allow_redirects=True)
        reply.raise_for_status()
        self.size = int(reply.headers["Content-Length"])

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move the position; no request is made."""
        self._position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size}[whence]
        return self._position

    def tell(self) -> int:
        """The position."""
        return self._position

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes from the position; all that is left where it is negative."""
        end = self.size if size < 0 else min(self.size, self._position + size)
        first, last = self._position // BLOCK, max(self._position, end - 1) // BLOCK
        data = b"".join(self._block(number) for number in range(first, last + 1)) if end > self._position else b""
        start = self._position - first * BLOCK
        self._position = max(self._position, end)
        return data[start : start + max(0, end - first * BLOCK - start)]

    def _block(self, number: int) -> bytes:
        if number not in self._blocks:
            start = number * BLOCK
            asked = {"Range": f"bytes={start}-{min(self.size, start + BLOCK) - 1}"}
            reply = self._session.get(self._url, headers=asked, timeout=TIMEOUT)
            if reply.status_code != requests.codes.partial_content:
                raise OSError(f"{self._url}: the server answered {reply.status_code} to a range request")
            self._blocks[number] = reply.content
        return self._blocks[number]


def read_members(client: PyPISimple, package: DistributionPackage, *endings: str) -> dict[str, str]:
    """The texts of the members of a wheel whose paths end in one of `endings`, by ending; a missing one is left out."""
    with zipfile.ZipFile(RangedFile(client.s, package.url)) as wheel:
        found: dict[str, str] = {}
        for name in wheel.namelist():
            for ending in endings:
                if name.endswith(ending) and ending not in found:
                    found[ending] = wheel.read(name).decode("utf-8", "replace")
        return found
