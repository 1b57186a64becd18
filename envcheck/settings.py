"""The project's settings: `[tool.envcheck]` of pyproject.toml, or envcheck.toml, decoded strictly."""

from __future__ import annotations

import datetime as dt
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Optional, Union

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from envcheck.errors import UsageError
from envcheck.model.need import ExpiredIgnore, GpuNeed, Need
from envcheck.settings_tables import Settings, sort_packages, unknown_keys

FILE = "envcheck.toml"
PYPROJECT = "pyproject.toml"
MAX_BYTES = 4 * 2**20
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)
_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


class Project(msgspec.Struct, frozen=True):
    """Settings, where they stand, and the requirements in them parsed."""

    settings: Settings
    path: Path
    need: Need
    ignore_lines: tuple[Optional[int], ...] = ()

    @property
    def folder(self) -> Path:
        """Where the patterns of the settings start."""
        return self.path.parent

    def expired(self, today: dt.date) -> tuple[ExpiredIgnore, ...]:
        """The ignores whose last day has passed."""
        lines = dict(enumerate(self.ignore_lines))
        return tuple(
            ExpiredIgnore(entry.rule, entry.reason, entry.until.isoformat(), lines.get(place))
            for place, entry in enumerate(self.settings.ignore)
            if entry.until < today
        )


NO_SETTINGS = Project(Settings(), Path(), Need())


def find_settings(start: Path) -> Optional[Path]:
    """envcheck.toml, or a pyproject.toml with our table, in `start` or above it up to the repository's root."""
    for folder in (start, *start.parents):
        own, pyproject = folder / FILE, folder / PYPROJECT
        if own.is_file():
            return own
        if pyproject.is_file() and _table(_read(pyproject), pyproject) is not None:
            return pyproject
        if (folder / ".git").exists():
            break
    return None


def load_settings(path: Path, packages: Iterable[str], shown: Optional[str] = None) -> Project:
    """The settings in `path`; `packages` are the names that `require` may hold. Raises UsageError, all faults at once.

    `shown` is the path as findings show it; the default is relative to the working directory.
    """
    text = _read(path)
    table = _table(text, path)
    if table is None:
        raise UsageError(f"{path} has no [tool.envcheck]", "Write the table, or run `envcheck init` to propose one.")
    prefix = "" if path.name != PYPROJECT else "tool.envcheck."
    table = sort_packages(table, tuple(packages))
    faults = list(unknown_keys(table, Settings, prefix, tuple(packages)))
    settings, need = Settings(), Need()
    if not faults:
        try:
            settings = msgspec.convert(table, Settings)
        except msgspec.ValidationError as fault:
            what, _, place = str(fault).partition(" - at `$")
            faults.append(f"{prefix}{place.strip('`').lstrip('.')}: {_plain(what)}")
        else:
            need, faults = _need(settings, prefix)
    if faults:
        raise UsageError(
            f"{path} is wrong:\n  " + "\n  ".join(faults),
            "The keys: docs/settings.md, for editors settings.schema.json.",
        )
    lines = text.splitlines()
    header = re.compile(r"\s*\[tool\.envcheck[.\]]" if prefix else r"(?=)")
    line = next((number for number, row in enumerate(lines, 1) if header.match(row)), 1)
    entry = re.compile(rf"\s*\[\[\s*{re.escape(prefix)}ignore\s*\]\]")
    ignores = tuple(number for number, row in enumerate(lines, 1) if entry.match(row))
    need = msgspec.structs.replace(need, path=shown or _relative(path), line=line)
    return Project(settings, path, need, ignores if len(ignores) == len(settings.ignore) else ())


def parse_size(text: Union[int, str]) -> int:
    """Bytes of 1024, '8GB' (decimal), '8GiB', '512M'; raises ValueError."""
    if isinstance(text, int):
        if text < 0:
            raise ValueError("a size is not negative")
        return text
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text!r} is no size; write '8GB' or '8GiB'")
    return int(float(match.group(1)) * (1024 if match.group(3) else 1000) ** _POWER[match.group(2).lower()])


def parse_specifier(text: str) -> str:
    """A PEP 440 specifier; a bare '2.1' means that release and its patches. Raises ValueError."""
    wanted = text.strip()
    if re.fullmatch(r"\d+(\.\d+)*", wanted):
        wanted = f"=={wanted}.*"
    try:
        SpecifierSet(wanted)
    except InvalidSpecifier:
        raise ValueError(f"{text!r} is no version specifier; write '>=2.1,<2.3'") from None
    return wanted


def lowest(specifier: str) -> str:
    """The lowest version that a specifier names as good ('>=535,<560' is '535'); '' where it names none."""
    floors = [
        (Version(clause.version.removesuffix(".*")), clause.version.removesuffix(".*"))
        for clause in SpecifierSet(specifier)
        if clause.operator in (">=", "==", "~=")
    ]
    return max(floors)[1] if floors else ""


def _count(value: Union[int, str, None]) -> str:
    if value is None:
        return ""
    return f">={value}" if isinstance(value, int) or value.strip().isdigit() else parse_specifier(value)


def _need(settings: Settings, prefix: str) -> tuple[Need, list[str]]:
    """The parsed requirements, and every value that is wrong."""
    faults: list[str] = []
    require = settings.require

    def read(key: str, parse: Any, value: Any) -> Any:
        if value in ("", None):
            return value
        try:
            return parse(value)
        except ValueError as fault:
            faults.append(f"{prefix}{key}: {fault}")
            return value

    gpu = require.gpu
    need = Need(
        packages={name: read(f"require.{name}", parse_specifier, spec) for name, spec in require.packages.items()},
        cuda=read("require.cuda", parse_specifier, require.cuda),
        cudnn=read("require.cudnn", parse_specifier, require.cudnn),
        python=read("require.python", parse_specifier, require.python),
        driver=read("require.driver", parse_specifier, require.driver),
        gpu=None
        if gpu is None
        else GpuNeed(
            names=gpu.names,
            count=read("require.gpu.count", _count, gpu.count) or "",
            capability=read("require.gpu.capability", parse_specifier, gpu.capability),
            memory_bytes=read("require.gpu.memory", parse_size, gpu.memory),
        ),
        features=tuple(require.features),
        shm_bytes=read("require.shm", parse_size, require.shm),
        ram_bytes=read("require.ram", parse_size, require.ram),
        disk_bytes=read("require.disk", parse_size, require.disk),
        containers=require.containers,
    )
    for place, entry in enumerate(settings.ignore):
        if not entry.reason.strip():
            faults.append(f"{prefix}ignore[{place}].reason: say why {entry.rule} may be ignored")
    return need, faults


def _plain(message: str) -> str:
    return message.replace("Object", "table").replace("`", "'").replace("array", "list")


def _read(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as failure:
        raise UsageError(f"can't read {path}: {failure.strerror}", "Name the settings with --config FILE.") from failure
    if len(data) > MAX_BYTES:
        raise UsageError(f"{path} is larger than {MAX_BYTES // 2**20} MB", "Settings are a few lines.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8", "TOML is written in UTF-8.") from None


def _table(text: str, path: Path) -> Optional[dict[str, Any]]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        data: dict[str, Any] = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as fault:
        raise UsageError(f"{path} is no valid TOML: {fault}", "Mend the line that is named.") from None
    if path.name != PYPROJECT:
        return data
    tool = data.get("tool")
    table = tool.get("envcheck") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise UsageError(f"{path} is wrong: tool.envcheck is no table", "Write it as [tool.envcheck].")
    return table


def _relative(path: Path) -> str:
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except (ValueError, OSError):
        return path.as_posix()
