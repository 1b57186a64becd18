"""The laws of the matrix: what must hold over all rows. Each law yields a fault for every row that breaks it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Optional

from packaging.version import InvalidVersion, Version

from envcheck import versions
from envcheck.matrix import drivers, law_packages
from envcheck.matrix.matrix import Matrix
from envcheck.matrix.specifiers import find_specifiers, is_empty
from envcheck.matrix.tables import Fault, Table, name_of

Law = Callable[[Matrix, Sequence[Table]], Iterator[Fault]]
DATE = re.compile(r"\d{4}-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?")
DATED = ("checked", "released", "eol", "latest_date", "published")


def rows_of(tables: Sequence[Table], subject: str) -> Iterator[tuple[Table, Any]]:
    """Each row of a subject with its table."""
    for table in tables:
        if table.subject.name == subject:
            for row in table.rows:
                yield table, row


def fault(table: Table, row: Any, key: str, what: str) -> Fault:
    """A fault of one row."""
    return Fault(table.file, name_of(row, table.subject), key, what)


def every_row_is_sourced_and_dated(matrix: Matrix, tables: Sequence[Table]) -> Iterator[Fault]:
    """`source` is told; dates are ISO days or months."""
    for table in tables:
        for row in table.rows:
            if not row.source.strip():
                yield fault(table, row, "source", "no source")
            for key in DATED:
                value = getattr(row, key, None)
                if value is not None and not DATE.fullmatch(value):
                    yield fault(table, row, key, f"not an ISO date: {value!r}")


def keys_are_unique(matrix: Matrix, tables: Sequence[Table]) -> Iterator[Fault]:
    """No two rows of a subject have the same key."""
    seen: set[tuple[str, ...]] = set()
    for table in tables:
        for row in table.rows:
            key = (table.subject.name, *(str(getattr(row, field)) for field in table.subject.key))
            if key in seen:
                yield fault(table, row, ", ".join(table.subject.key), "a second row with this key")
            seen.add(key)


def versions_parse(matrix: Matrix, tables: Sequence[Table]) -> Iterator[Fault]:
    """Every field that holds one version is one."""
    single = {
        "cuda": (
            "version",
            "linux_driver",
            "windows_driver",
            "runfile_driver",
            "minor_linux",
            "minor_windows",
            "cudart",
        ),
        "branches": ("latest", "max_cuda"),
        "forward_compat": ("cuda",),
        "capabilities": ("first_cuda", "last_cuda"),
        "gpus": ("mig_min_driver", "first_driver"),
        "builds": ("version", "cuda", "python_min", "python_max", "glibc", "driver_min"),
        "companions": ("framework_version",),
        "framework_images": ("cuda", "cudnn", "driver_min", "compat_driver", "python", "ubuntu"),
        "cuda_images": ("cuda", "cudnn", "nccl"),
        "vulnerabilities": ("last_bad", "first_good"),
        "host_compilers": ("cuda",),
    }
    for table in tables:
        for row in table.rows:
            for key in single.get(table.subject.name, ()):
                value = getattr(row, key)
                if value and not _is_version(value):
                    yield fault(table, row, key, f"not a version: {value!r}")


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:
        return False
    return text == text.strip()


def floors_never_fall(matrix: Matrix, tables: Sequence[Table]) -> Iterator[Fault]:
    """A newer CUDA never asks for an older driver; a newer branch never runs an older newest CUDA."""
    ordered = sorted(rows_of(tables, "cuda"), key=lambda pair: versions.find(pair[1].version) or Version("0"))
    for key in ("linux_driver", "windows_driver", "minor_linux", "minor_windows"):
        highest: Optional[str] = None
        for table, row in ordered:
            value = getattr(row, key)
            if value is None or not _is_version(value):
                continue
            if highest is not None and Version(value) < Version(highest):
                yield fault(table, row, key, f"{value} is below {highest} of an older CUDA")
            highest = value
    for platform in ("linux", "windows"):
        rows = [pair for pair in rows_of(tables, "branches") if pair[1].platform == platform and pair[1].max_cuda]
        rows.sort(key=lambda pair: pair[1].branch)
        for (_, older), (table, newer) in zip(rows, rows[1:]):
            if Version(newer.max_cuda) < Version(older.max_cuda):
                yield fault(table, newer, "max_cuda", f"{newer.max_cuda} is below {older.max_cuda} of R{older.branch}")
    compilers = sorted(rows_of(tables, "host_compilers"), key=lambda pair: Version(pair[1].cuda))
    for (_, older), (table, newer) in zip(compilers, compilers[1:]):
        if older.gcc_max and newer.gcc_max and newer.gcc_max < older.gcc_max:
            yield fault(table, newer, "gcc_max", f"{newer.gcc_max} is below {older.gcc_max} of CUDA {older.cuda}")


def branches_belong(matrix: Matrix, tables: Sequence[Table]) -> Iterator[Fault]:
    """A branch's newest driver is its own, its life isn't negative, and tables name branches and CUDAs that exist."""
    known = {row.branch for row in matrix.branches}
    minors = set(matrix.cuda_minors())
    for table, row in rows_of(tables, "branches"):
        if row.platform == "linux" and row.latest and versions.branch(row.latest) != row.branch:
            yield fault(table, row, "latest", f"{row.latest} is not of R{row.branch}")
        if row.released and row.eol and row.eol < row.released:
            yield fault(table, row, "eol", f"{row.eol} is before its release {row.released}")
    for table, row in rows_of(tables, "forward_compat"):
        if row.branch not in known:
            yield fault(table, row, "branch", f"no branch R{row.branch}")
        if row.cuda not in minors:
            yield fault(table, row, "cuda", f"no CUDA {row.cuda}")
    for table, row in rows_of(tables, "host_compilers"):
        if row.cuda not in minors:
            yield fault(table, row, "cuda", f"no CUDA {row.cuda}")


def capabilities_have_a_span(matrix: Matrix, tables: Sequence[Table]) -> Iterator[Fault]:
    """first_cuda is not after last_cuda, both exist, and no feature is both had and lacked."""
    minors = matrix.cuda_minors()
    for table, row in rows_of(tables, "capabilities"):
        first, last = versions.find(row.first_cuda), versions.find(row.last_cuda)
        if first and last and first > last:
            yield fault(table, row, "last_cuda", f"{row.last_cuda} is before {row.first_cuda}")
        for key, value in (("first_cuda", first), ("last_cuda", last)):
            if value and minors and value >= Version(minors[0]) and str(value) not in minors:
                yield fault(table, row, key, f"no CUDA {value}")
        if set(row.features) & set(row.lacks):
            yield fault(table, row, "lacks", "a feature is both there and lacking")
        if row.last_branch is not None and matrix.branch(str(row.last_branch)) is None:
            yield fault(table, row, "last_branch", f"no branch R{row.last_branch}")


def gpus_are_told_apart(matrix: Matrix, tables: Sequence[Table]) -> Iterator[Fault]:
    """Each GPU's capability exists, its PCI ids are such, and its name and aliases lead to its own capability."""
    for table, row in rows_of(tables, "gpus"):
        if matrix.capability(row.capability) is None:
            yield fault(table, row, "capability", f"no capability {row.capability}")
        for device in row.pci_ids:
            if not re.fullmatch(r"[0-9A-F]{4}", device):
                yield fault(table, row, "pci_ids", f"not a PCI device id: {device!r}")
            elif matrix.find_gpu_by_pci(device) is None:
                yield fault(table, row, "pci_ids", f"{device} is also of a GPU with another capability")
        for name in (row.name, *row.aliases):
            found = matrix.find_gpu(name)
            if found is None or found.capability != row.capability:
                yield fault(table, row, "aliases", f"{name!r} leads to {found.name if found else 'no model'}")
        if row.min_branch is not None and drivers.find_branch(matrix.branches, str(row.min_branch)) is None:
            yield fault(table, row, "min_branch", f"no branch R{row.min_branch}")


def machines_have_known_gpus(matrix: Matrix, tables: Sequence[Table]) -> Iterator[Fault]:
    """A cloud machine's model is one of gpus.toml."""
    for table, row in rows_of(tables, "instances"):
        if row.model and matrix.find_gpu(row.model) is None:
            yield fault(table, row, "model", f"no GPU is called {row.model!r}")
        if row.count is not None and row.count < 0:
            yield fault(table, row, "count", "negative")


def known_bad_can_be_judged(matrix: Matrix, tables: Sequence[Table]) -> Iterator[Fault]:
    """Conditions parse and can be met; the cause is of the vocabulary."""
    causes = {row.key for row in matrix.causes}
    for table, row in rows_of(tables, "known_bad"):
        if row.cause and row.cause not in causes:
            yield fault(table, row, "cause", f"no cause {row.cause!r}")
        told = {f"packages.{name}": text for name, text in row.packages.items()}
        for key in ("python", "driver", "cuda", "capability", "glibc"):
            told[key] = getattr(row, key)
        for key, text in told.items():
            specifiers = find_specifiers(text)
            if specifiers is None:
                yield fault(table, row, key, f"not a specifier: {text!r}")
            elif is_empty(specifiers):
                yield fault(table, row, key, f"nothing meets {text!r}")


def vulnerabilities_are_fixed_later(matrix: Matrix, tables: Sequence[Table]) -> Iterator[Fault]:
    """The first good version is newer than the last bad one; a driver's fix is of its branch."""
    for table, row in rows_of(tables, "vulnerabilities"):
        bad, good = versions.find(row.last_bad), versions.find(row.first_good)
        if bad is None and good is None:
            yield fault(table, row, "first_good", "neither a last bad nor a first good version")
        if bad and good and good <= bad:
            yield fault(table, row, "first_good", f"{row.first_good} is not after {row.last_bad}")
        if row.component == "nvidia-driver-linux" and good and row.branch != f"R{good.major}":
            yield fault(table, row, "branch", f"{row.first_good} is not of {row.branch or 'a branch'}")


def symptoms_lead_somewhere(matrix: Matrix, tables: Sequence[Table]) -> Iterator[Fault]:
    """Patterns compile, their messages name their own groups, and the causes they name exist."""
    causes = {row.key for row in matrix.causes}
    for table, row in rows_of(tables, "symptoms"):
        for cause in filter(None, (row.proves, *row.suggests)):
            if cause not in causes:
                yield fault(table, row, "proves" if cause == row.proves else "suggests", f"no cause {cause!r}")
        try:
            groups = set(re.compile(row.pattern).groupindex)
        except re.error as wrong:
            yield fault(table, row, "pattern", f"not a regular expression: {wrong}")
            continue
        for field in re.findall(r"\{(\w+)\}", row.message):
            if field not in groups:
                yield fault(table, row, "message", f"the pattern has no group {field!r}")


def texts_are_printable(matrix: Matrix, tables: Sequence[Table]) -> Iterator[Fault]:
    """No field carries control characters: rows are printed as they are."""
    for table in tables:
        for row in table.rows:
            for key in row.__struct_fields__:
                value = getattr(row, key)
                for text in value if isinstance(value, tuple) else (value,):
                    if isinstance(text, str) and not text.isprintable():
                        yield fault(table, row, key, "control characters")


LAWS: tuple[Law, ...] = (
    every_row_is_sourced_and_dated,
    keys_are_unique,
    versions_parse,
    floors_never_fall,
    branches_belong,
    capabilities_have_a_span,
    gpus_are_told_apart,
    machines_have_known_gpus,
    known_bad_can_be_judged,
    vulnerabilities_are_fixed_later,
    symptoms_lead_somewhere,
    texts_are_printable,
    *law_packages.LAWS,
)
