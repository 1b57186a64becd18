"""Which programs and libraries of the machine may be loaded by us, who are often root."""

from __future__ import annotations

import os
import stat

from envcheck.probes.tree import Tree, Unreadable


def trusted(tree: Tree, path: str) -> bool:
    """Is `path` a regular file that only root or we ourselves can have put there?"""
    try:
        found = tree.stat(path)
        if found is None or not stat.S_ISREG(found.st_mode):
            return False
        folder = tree.stat(tree.resolve(path).rpartition("/")[0] or "/")
    except Unreadable:
        return False
    if not tree.live:
        return True  # nothing of a recorded tree is run
    ours = (0, os.geteuid())
    # A sticky folder such as /tmp is open to all, but nobody replaces another's file in it.
    return all(
        status is not None
        and status.st_uid in ours
        and (not status.st_mode & stat.S_IWOTH or bool(status.st_mode & stat.S_ISVTX))
        for status in (found, folder)
    )
