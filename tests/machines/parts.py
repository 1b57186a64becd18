"""Parts of machines as dictionaries of files: a recipe adds them up, `build` writes them below a folder."""

# ruff: noqa: E501 - rows of data read better whole

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Optional, Union

from envcheck.probes.replay import Recording
from envcheck.probes.runner import Run


class Link(NamedTuple):
    target: str


class Mode(NamedTuple):
    """An empty file with these permissions: a device node's stand-in."""

    mode: int


Content = Union[str, bytes, Link, Mode, None]  # None: a folder
Files = dict[str, Content]
ELF_X86 = b"\x7fELF\x02\x01\x01" + b"\0" * 9 + struct.pack("<HH", 3, 0x3E)
ELF_ARM = b"\x7fELF\x02\x01\x01" + b"\0" * 9 + struct.pack("<HH", 3, 0xB7)


class Machine(NamedTuple):
    """A machine before it is written: files, recorded runs, environment, `--python`."""

    files: Files
    runs: dict[str, Run] = {}
    env: dict[str, str] = {}
    python: Optional[str] = None


def build(machine: Machine, folder: Path) -> Path:
    """Write the machine as a recording that `replay` reads."""
    root = folder / "root"
    root.mkdir(parents=True)
    for path, content in machine.files.items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            place.mkdir(exist_ok=True)
        elif isinstance(content, Link):
            place.symlink_to(content.target)
        elif isinstance(content, Mode):
            place.touch()
            place.chmod(content.mode)
        else:
            place.write_bytes(content.encode() if isinstance(content, str) else content)
    import msgspec

    recording = Recording(runs=machine.runs, env=machine.env, python=machine.python)
    (folder / "recording.json").write_bytes(msgspec.json.encode(recording))
    return folder


def ubuntu(
    version: str = "22.04", glibc: str = "2.35", glibcxx: str = "3.4.30", triple: str = "x86_64-linux-gnu"
) -> Files:
    """A Linux machine with nothing special: kernel, C library, memory, PCI bus, package database."""
    elf = ELF_ARM if triple.startswith("aarch64") else ELF_X86
    return {
        "/bin/sh": elf,
        "/sbin/init": elf,
        "/etc/os-release": f'ID=ubuntu\nVERSION_ID="{version}"\nPRETTY_NAME="Ubuntu {version} LTS"\n',
        "/proc/sys/kernel/osrelease": "5.15.0-91-generic\n",
        "/proc/version": "Linux version 5.15.0-91-generic (buildd@lcy02) (gcc 11.4.0)\n",
        "/proc/modules": "ext4 1 0 - Live 0x0\n",
        "/proc/meminfo": "MemTotal:       65536000 kB\nMemFree: 1 kB\n",
        "/proc/self/limits": "Limit                     Soft Limit           Hard Limit           Units\n"
        "Max locked memory         8388608              8388608              bytes\n",
        "/proc/mounts": "/dev/sda1 / ext4 rw 0 0\ntmpfs /dev/shm tmpfs rw,nosuid,size=33554432k 0 0\n",
        "/proc/cpuinfo": "flags\t\t: fpu sse2\n",
        "/proc/1/cgroup": "0::/init.scope\n",
        "/sys/bus/pci/devices": None,
        "/sys/class": None,
        "/sys/firmware": None,
        "/dev": None,
        f"/usr/lib/{triple}/libc.so.6": elf
        + f"\0GNU C Library (Ubuntu GLIBC {glibc}-0ubuntu3) stable release version {glibc}.\n".encode(),
        f"/usr/lib/{triple}/libstdc++.so.6": Link("libstdc++.so.6.0.30"),
        f"/usr/lib/{triple}/libstdc++.so.6.0.30": elf + f"\0GLIBCXX_3.4\0GLIBCXX_3.4.9\0GLIBCXX_{glibcxx}\0".encode(),
        "/var/lib/dpkg/status": dpkg({"bash": "5.1-6ubuntu1"}),
    }


def dpkg(packages: Mapping[str, str]) -> str:
    """A dpkg status file."""
    return "".join(
        f"Package: {name}\nStatus: install ok installed\nPriority: optional\nVersion: {version}\n\n"
        for name, version in packages.items()
    )


def pci(bus: str, device: str, driver: str = "nvidia", vendor: str = "10de", kind: str = "030200") -> Files:
    """A PCI device; driver '' leaves it unbound."""
    place = f"/sys/bus/pci/devices/{bus}"
    files: Files = {
        f"{place}/vendor": f"0x{vendor}\n",
        f"{place}/device": f"0x{device.lower()}\n",
        f"{place}/class": f"0x{kind}\n",
    }
    if driver:
        files[f"{place}/driver"] = Link(f"../../../../bus/pci/drivers/{driver}")
    return files


def module(
    version: str, *, flavour: str = "proprietary", others: Sequence[str] = ("nvidia_uvm", "nvidia_modeset")
) -> Files:
    """The loaded NVIDIA kernel module."""
    said = f"Kernel Module  {version}" if flavour == "proprietary" else f"Open Kernel Module for x86_64  {version}"
    lines = "".join(f"{name} 1 0 - Live 0x0\n" for name in ("nvidia", *others))
    return {
        "/proc/driver/nvidia/version": f"NVRM version: NVIDIA UNIX x86_64 {said}  Thu Aug 17 18:57:21 UTC 2023\n".replace(
            "x86_64 Open", "Open"
        ),
        "/proc/modules": lines,
        "/sys/module/nvidia/version": f"{version}\n",
    }


def nodes(count: int = 1, mode: int = 0o666) -> Files:
    """NVIDIA's device files."""
    names = ["nvidiactl", "nvidia-uvm", "nvidia-modeset", *(f"nvidia{n}" for n in range(count))]
    return {f"/dev/{name}": Mode(mode) for name in names}


def driver_libraries(version: str, folder: str = "/usr/lib/x86_64-linux-gnu") -> Files:
    """The driver's user-space libraries."""
    files: Files = {}
    for name in ("libcuda", "libnvidia-ml"):
        files[f"{folder}/{name}.so.{version}"] = ELF_X86
        files[f"{folder}/{name}.so.1"] = Link(f"{name}.so.{version}")
    return files


def gpu(index: int = 0, **values: object) -> dict[str, object]:
    """What the NVML child says of one GPU; an RTX 4090 by default."""
    told = {
        "name": "NVIDIA GeForce RTX 4090",
        "uuid": f"GPU-{index:08x}-1111-2222-3333-444444444444",
        "pci": ["00000000:01:00.0", 0x268410DE],
        "capability": [8, 9],
        "memory": [25757220864, 1048576],
        "persistence": 0,
        "fabric": [0, 0],
        "nvlink": 0,
        **values,
    }
    errors = told.pop("errors", {"mig": "NOT_SUPPORTED"})
    return {"step": "gpu", "index": index, "values": {k: v for k, v in told.items() if v is not None}, "errors": errors}


def nvml(
    *gpus: dict[str, object],
    driver: str = "535.104.05",
    cuda: int = 12020,
    fault: Optional[str] = None,
    end: bool = True,
) -> dict[str, Run]:
    """A recorded run of the NVML child; `fault` is the code that nvmlInit gives."""
    steps: list[dict[str, object]] = [{"step": "open", "errno": 0}, {"step": "load"}]
    if fault:
        steps.append({"step": "init", "code": fault, "message": fault.replace("_", " ").title()})
    else:
        steps += [
            {"step": "init"},
            {"step": "driver", "version": driver, "nvml": f"12.{driver}", "cuda": cuda, "errors": {}},
        ]
        steps.append({"step": "count", "value": len(gpus)})
        for one in gpus:
            steps += [{"step": "begin", "index": one["index"]}, one]
        if end:
            steps.append({"step": "end"})
    out = "".join(json.dumps(step) + "\n" for step in steps).encode()
    return {"nvml": Run((), rc=0, out=out)}


def python(prefix: str = "/usr", version: str = "3.10", patch: str = "3.10.12") -> Files:
    """An interpreter with headers that tell its patch release."""
    return {
        f"{prefix}/bin/python{version}": ELF_X86,
        f"{prefix}/bin/python3": Link(f"python{version}"),
        f"{prefix}/lib/python{version}/os.py": "",
        f"{prefix}/include/python{version}/patchlevel.h": f'#define PY_VERSION              "{patch}"\n',
        f"{prefix}/include/python{version}/Python.h": "",
    }


def venv(prefix: str, version: str = "3.10", patch: str = "3.10.12", *, shared: bool = False) -> Files:
    """A virtual environment over /usr's Python."""
    return {
        f"{prefix}/bin/python": Link(f"/usr/bin/python{version}"),
        f"{prefix}/bin/python3": Link("python"),
        f"{prefix}/pyvenv.cfg": f"home = /usr/bin\ninclude-system-site-packages = {str(shared).lower()}\nversion = {patch}\n",
        f"{prefix}/lib/python{version}/site-packages": None,
    }


def distribution(
    site: str,
    name: str,
    version: str,
    *,
    requires: Sequence[str] = (),
    installer: str = "pip",
    files: Mapping[str, str] = {},
) -> Files:
    """An installed distribution with an importable folder; `files` are below the site folder."""
    place = f"{site}/{name.replace('-', '_')}-{version}.dist-info"
    module_name = name.replace("-", "_")
    lines = "".join(f"Requires-Dist: {line}\n" for line in requires)
    own = {f"{module_name}/__init__.py": "", **files}
    return {
        f"{place}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{lines}\nRequires-Dist: not-a-header\n",
        f"{place}/RECORD": "".join(f"{path},,\n" for path in own),
        f"{place}/INSTALLER": f"{installer}\n",
        f"{place}/WHEEL": "Wheel-Version: 1.0\nTag: cp310-cp310-linux_x86_64\n",
        **{f"{site}/{path}": text for path, text in own.items()},
    }


def torch(
    site: str, version: str = "2.1.0+cu121", cuda: Optional[str] = "12.1", hip: Optional[str] = None, **more: object
) -> Files:
    """The framework with its version file, as its wheels have it: the package index's metadata lacks the local part."""
    text = (
        "from typing import Optional\n\n__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip']\n"
        f"__version__ = '{version}'\ndebug = False\ncuda: Optional[str] = {cuda!r}\ngit_version = 'abc'\n"
        f"hip: Optional[str] = {hip!r}\n"
    )
    return distribution(site, "torch", version.partition("+")[0], files={"torch/version.py": text}, **more)  # type: ignore[arg-type]


def toolkit(version: str, *, nvcc: bool = True, default: bool = True) -> Files:
    """A CUDA toolkit under /usr/local."""
    short = ".".join(version.split(".")[:2])
    home = f"/usr/local/cuda-{short}"
    files: Files = {
        f"{home}/version.json": json.dumps({"cuda": {"name": "CUDA SDK", "version": version}}),
        f"{home}/lib64/libcudart.so.{version}": ELF_X86,
        f"{home}/lib64/libcudart.so.{short.split('.')[0]}": Link(f"libcudart.so.{version}"),
    }
    if nvcc:
        files[f"{home}/bin/nvcc"] = ELF_X86
    if default:
        files["/usr/local/cuda"] = Link(home)
    return files


def gcc(major: str, full: str = "") -> Files:
    """Debian's gcc; with the full version it is an RPM system's, whose folder tells only the major."""
    return {
        "/usr/bin/gcc": Link(f"gcc-{major}"),
        f"/usr/bin/gcc-{major}": Link(f"x86_64-linux-gnu-gcc-{major}"),
        f"/usr/bin/x86_64-linux-gnu-gcc-{major}": ELF_X86,
        f"/usr/lib/gcc/x86_64-linux-gnu/{major}/crtbegin.o": "",
    }


def ld_cache(entries: Mapping[str, str]) -> Files:
    """An ld.so.cache in glibc's format of today."""
    return {"/etc/ld.so.cache": cache_bytes(entries)}


def cache_bytes(entries: Mapping[str, str], old_header: bool = False) -> bytes:
    table, strings = b"", b""
    start = 48 + 24 * len(entries)
    for soname, path in entries.items():
        key = start + len(strings)
        strings += soname.encode() + b"\0"
        value = start + len(strings)
        strings += os.fsencode(path) + b"\0"
        table += struct.pack("<iIIIQ", 0x0303, key, value, 0, 0)
    new = b"glibc-ld.so.cache1.1" + struct.pack("<II", len(entries), len(strings)) + b"\0" * 20 + table + strings
    if not old_header:
        return new
    old = b"ld.so-1.7.0\0" + struct.pack("<I", 0)
    return old + b"\0" * (-len(old) % 8) + new
