import os

import pytest

from envcheck.cli.options import split_ids, wants_color, write_file
from envcheck.errors import UsageError


class Terminal:
    def isatty(self):
        return True


def test_a_file_is_written_whole_with_ordinary_permissions(tmp_path):
    write_file(tmp_path / "a.txt", "x\n")
    assert (tmp_path / "a.txt").read_text() == "x\n"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").stat().st_mode & 0o400


def test_a_missing_folder_is_said(tmp_path):
    with pytest.raises(UsageError, match="no folder"):
        write_file(tmp_path / "no" / "a.txt", "x")


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(UsageError, match="is a folder"):
        write_file(tmp_path, "x")


def test_a_device_is_written_to_not_replaced():
    write_file(__import__("pathlib").Path(os.devnull), "x")
    assert not os.path.isfile(os.devnull)


def test_colour_is_for_terminals_that_want_it(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert wants_color(Terminal(), False)
    assert not wants_color(Terminal(), True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not wants_color(Terminal(), False)


def test_ids_may_be_repeated_or_joined_by_commas():
    assert split_ids(("DRV101,GPU201", " CTR ")) == ("DRV101", "GPU201", "CTR")
