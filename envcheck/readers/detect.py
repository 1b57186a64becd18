"""Reads any paste: every reader takes what it knows, and what all found becomes one snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Optional

import msgspec

from envcheck.errors import InspectError
from envcheck.model.finding import Report
from envcheck.model.snapshot import Snapshot
from envcheck.readers import (
    collect_env,
    container_tools,
    kernel_log,
    library_lists,
    messages,
    nvidia_smi,
    nvidia_smi_query,
    nvidia_smi_xml,
    package_lists,
    prose,
    python_prints,
    tool_reports,
    toolchain,
)
from envcheck.readers.draft import Draft
from envcheck.readers.lines import Line, clean, numbered, shorten
from envcheck.readers.symptoms import Symptom, find_events

# In this order: the first that tells a fact is believed, so tools come before what people write.
READERS: tuple[ModuleType, ...] = (
    nvidia_smi_xml,
    nvidia_smi_query,
    nvidia_smi,
    collect_env,
    kernel_log,
    package_lists,
    tool_reports,
    python_prints,
    toolchain,
    library_lists,
    container_tools,
    messages,
    prose,
)
WHAT_TO_PASTE = (
    "Paste the whole error with the lines above it, and the output of `nvidia-smi` and of "
    "`python -m torch.utils.collect_env` (or `pip list`). docs/pastes.md lists all that is read."
)


def read_report(text: str, *, name: str, symptoms: Sequence[Symptom]) -> Snapshot:
    """The partial snapshot of a paste: everything unsaid stays unknown, the source of each fact is 'line N'.

    Raises InspectError where neither a fact nor an error text was recognised.
    """
    own = _own_json(text)
    if own is not None:
        return own
    text, cut = shorten(clean(text))
    if not text.strip():
        raise InspectError(f"{name} is empty", WHAT_TO_PASTE)
    lines = numbered(text)
    draft = Draft()
    if cut:
        draft.remarks.append("the paste is very long: its middle was left out")
    used = []
    for reader in READERS:
        if reader.recognises(text):
            before = draft.facts
            reader.read(lines, draft)
            if draft.facts > before:
                used.append(reader.NAME)
    draft.events += find_events(text, symptoms)
    if not draft.facts and not draft.events:
        raise InspectError(_nothing(name, lines), WHAT_TO_PASTE)
    return draft.snapshot(name, tuple(used))


def _nothing(name: str, lines: Sequence[Line]) -> str:
    tried = ", ".join(dict.fromkeys(reader.NAME for reader in READERS))
    count = f"{len(lines)} line{'s' if len(lines) != 1 else ''}"
    return f"nothing in {name} ({count}) is known: tried {tried}, and every error text of matrices/symptoms.toml"


def _own_json(text: str) -> Optional[Snapshot]:
    """A snapshot or report that envcheck wrote; None for anything else."""
    if not text.lstrip("\ufeff \t\r\n").startswith("{") or '"schema"' not in text[:400]:
        return None
    data = text.lstrip("\ufeff \t\r\n").encode("utf-8", "replace")
    for kind in (Report, Snapshot):
        try:
            found = msgspec.json.decode(data, type=kind)
        except (msgspec.DecodeError, RecursionError):
            continue
        if isinstance(found, Report):
            return found.snapshot
        if isinstance(found, Snapshot):
            return found
    return None
