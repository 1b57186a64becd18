"""Which programs and libraries of the machine may be loaded by us, who are often root."""

from __future__ import annotations

import os
import stat

from envcheck.probes.tree import Tree, Unreadable


def trusted(tree: Tree, path: str) -> bool:
    """Is `path` a regular file that we may load: as root, one that only root can have put there?"""
    try:
        found = tree.stat(path)
        if found is None or not stat.S_ISREG(found.st_mode):
            return False
        folder = tree.stat(tree.resolve(path).rpartition("/")[0] or "/")
    except Unreadable:
        return False
    if not tree.live or os.geteuid() != 0:
        return True  # nothing of a recorded tree is run; a plain user loads what their environment names anyway
    # A sticky folder such as /tmp is open to all, but nobody replaces another's file in it.
    return all(
        status is not None
        and status.st_uid == 0
        and (not status.st_mode & stat.S_IWOTH or bool(status.st_mode & stat.S_ISVTX))
        for status in (found, folder)
    )
