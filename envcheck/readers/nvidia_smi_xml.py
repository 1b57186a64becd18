"""nvidia-smi -q -x: the XML log, parsed without entities, DTD or network."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Optional
from xml.parsers import expat

from envcheck.model.machine import Gpu, MigDevice
from envcheck.readers.draft import Draft
from envcheck.readers.lines import Line

NAME = "nvidia-smi -q -x"
MAX_DEPTH = 40


class _Refused(Exception):
    """The document declares entities, or nests too deep."""


class _Log:
    """Walks the document: `gpus` are flat dicts of 'parent/tag' to text, with the line of each <gpu>."""

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.path: list[str] = []
        self.text: list[str] = []
        self.top: dict[str, tuple[str, int]] = {}
        self.gpus: list[dict[str, Any]] = []
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.text.append
        self.parser.EntityDeclHandler = self.refuse

    def refuse(self, *_: object) -> None:
        """An entity declaration: nvidia-smi writes none."""
        raise _Refused

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """An element opens."""
        if len(self.path) > MAX_DEPTH:
            raise _Refused
        self.path.append(tag)
        self.text.clear()
        if self.path[1:] == ["gpu"]:
            self.gpus.append(
                {"line": self.parser.CurrentLineNumber + self.offset, "bus": attributes.get("id", ""), "mig": []}
            )

    def end(self, tag: str) -> None:
        """An element closes: its text is a value."""
        value = "".join(self.text).strip()[:500]
        self.text.clear()
        parent = self.path[-2] if len(self.path) > 1 else ""
        if len(self.path) == 2 and value:
            self.top[tag] = (value, self.parser.CurrentLineNumber + self.offset)
        elif self.gpus and "mig_device" in self.path:
            if self.path[-3:] == ["mig_device", "fb_memory_usage", "total"]:
                self.gpus[-1]["mig"].append(_mib(value))
        elif self.gpus and value:
            self.gpus[-1].setdefault(f"{parent}/{tag}", value)
        self.path.pop()


def recognises(text: str) -> bool:
    """By its root."""
    return "<nvidia_smi_log" in text


def read(lines: Sequence[Line], draft: Draft) -> None:
    """What could be read up to where the document is cut; one with entities is refused with a remark."""
    begin = next((place for place, line in enumerate(lines) if "<nvidia_smi_log" in line.text), None)
    if begin is None:
        return
    first = lines[begin].number
    log = _Log(first - 1)
    at, pieces = first, []
    for line in lines[begin:]:
        pieces.append("\n" * (line.number - at) + line.text)
        at = line.number
        if "</nvidia_smi_log>" in line.text:
            break
    text = "".join(pieces)
    try:
        log.parser.Parse(text[text.index("<nvidia_smi_log") :], True)
    except _Refused:
        draft.remarks.append(f"the XML at line {first} declares entities or nests too deep: not read")
        return
    except (expat.ExpatError, ValueError):
        pass  # cut: what came before stands
    _collect(log, draft)


def _collect(log: _Log, draft: Draft) -> None:
    driver, at = log.top.get("driver_version", ("", 0))
    cuda = next((log.top[tag][0] for tag in ("cuda_version", "cuda_umd_version") if tag in log.top), None)
    if re.match(r"\d{3}\.", driver):
        draft.add_driver(driver, f"line {at}", cuda if cuda and re.match(r"\d+\.\d", cuda) else None)
    draft.add_gpus([gpu for place, values in enumerate(log.gpus) if (gpu := _gpu(values, place)) is not None])


def _gpu(values: dict[str, Any], place: int) -> Optional[Gpu]:
    name = values.get("gpu/product_name", "")
    pci = values.get("pci/pci_device_id", "")
    remap = values.get("remapped_rows/remapped_row_pending") or values.get("retired_pages/pending_retirement")
    return Gpu(
        name or "NVIDIA GPU",
        index=place,
        memory_mib=_mib(values.get("fb_memory_usage/total")),
        memory_used_mib=_mib(values.get("fb_memory_usage/used")),
        pci_id=pci[:4].upper() if re.match(r"[0-9A-Fa-f]{4}10DE", pci, re.IGNORECASE) else None,
        pci_bus=str(values["bus"]),
        uuid=values.get("gpu/uuid", ""),
        mig_enabled={"Enabled": True, "Disabled": False}.get(values.get("mig_mode/current_mig", "")),
        mig_devices=tuple(MigDevice(memory_mib=memory) for memory in values["mig"]),
        persistence={"Enabled": True, "Disabled": False}.get(values.get("gpu/persistence_mode", "")),
        remap_pending={"yes": True, "no": False}.get((remap or "").lower()),
        remap_failed={"yes": True, "no": False}.get(values.get("remapped_rows/remapped_row_failure", "").lower()),
        source=f"line {values['line']}",
    )


def _mib(text: Optional[str]) -> Optional[int]:
    match = re.match(r"(\d+) MiB", text or "")
    return int(match.group(1)) if match else None
