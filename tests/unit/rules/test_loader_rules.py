"""LIB rules and the bundled part of GPU210 over stacks as the probe makes them; the fires, the passes and the skips."""

from __future__ import annotations

import msgspec
import pytest

from envcheck.model.fact import known, unknown
from envcheck.model.machine import Driver, Gpu, Machine
from envcheck.model.snapshot import Snapshot
from envcheck.model.stack import ForwardNote, Library, Opening, Package, Stack, Toolkit
from envcheck.rules.driver import forward_compat_unsupported_gpu
from envcheck.rules.engine import judge
from envcheck.rules.loader import RULES
from envcheck.rules.ptxas import bundled_ptxas_problems

SITE = "/venv/lib/python3.11/site-packages"


def snapshot(**stack) -> Snapshot:
    stack.setdefault("openings", ())
    stack.setdefault("libraries", ())
    facts = {name: known(value, "test") for name, value in stack.items()}
    return msgspec.structs.replace(Snapshot(), stack=msgspec.structs.replace(Stack(), **facts))


def found(snap, matrix):
    return [(f.rule, f.severity, f.subject) for f in judge(snap, matrix, RULES).findings]


def pair(soname: str, own: str, other: str | None, **winner):
    reason = winner.pop("reason", "LD_LIBRARY_PATH")
    return (
        Library(soname, f"/opt/lib/{soname}", other, "system", order=0, reason=reason),
        Library(soname, f"{SITE}/nvidia/lib/{soname}", own, "wheel", "nvidia-x", order=1, reason="not loaded: RUNPATH"),
    )


def test_another_release_first_is_a_warning_that_names_the_folder_to_drop(matrix):
    snap = snapshot(libraries=pair("libcublas.so.12", "12.4.5.8", "12.1.3.1"))
    (finding,) = judge(snap, matrix, RULES).findings
    assert (finding.rule, finding.severity) == ("LIB101", "warning")
    assert finding.fix == ("unset LD_LIBRARY_PATH   (or take /opt/lib out of it)",)


def test_the_same_release_from_elsewhere_is_no_problem(matrix):
    assert found(snapshot(libraries=pair("libcublas.so.12", "12.4.5.8", "12.4.5.8")), matrix) == []


def test_a_symbol_that_the_winner_lacks_makes_it_an_error(matrix):
    rows = pair("libnvJitLink.so.12", "12.4.127", "12.1.105")
    symbol = "__nvJitLinkComplete_12_4"
    opening = Opening(
        f"{SITE}/torch/_C.so", "torch", "symbol", symbol, f"{SITE}/nvidia/x", rows[0].path, symbols=(symbol,)
    )
    snap = snapshot(libraries=rows, openings=(opening,))
    assert found(snap, matrix) == [("LIB101", "error", "libnvJitLink.so.12")]


@pytest.mark.parametrize(
    ("own", "other", "severity"),
    [
        ("9.1.0.70", "8.9.7", "error"),
        ("9.1.0.70", "9.0.0", "error"),
        ("9.1.0.70", "9.8.0", "warning"),
        ("9.1.0.70", None, "warning"),
    ],
)
def test_a_cudnn_that_is_older_is_an_error_and_a_newer_one_a_warning(matrix, own, other, severity):
    assert found(snapshot(libraries=pair("libcudnn.so.9", own, other)), matrix) == [
        ("LIB102", severity, "libcudnn.so.9")
    ]


def test_cudnn_parts_of_two_releases_are_one_error(matrix):
    rows = tuple(
        Library(
            f"libcudnn{part}.so.9", f"/{part}", version, origin, "nvidia-cudnn-cu12", order=0, reason="LD_LIBRARY_PATH"
        )
        for part, version, origin in (
            ("", "9.1.0.70", "wheel"),
            ("_ops", "9.1.0.70", "wheel"),
            ("_cnn", "9.8.0", "system"),
        )
    )
    assert found(snapshot(libraries=rows), matrix) == [("LIB103", "error", "libcudnn_cnn.so.9")]


def test_cudnn_parts_of_one_release_pass(matrix):
    rows = tuple(Library(f"libcudnn{p}.so.9", f"/{p}", "9.1.0", "wheel", order=0) for p in ("", "_ops", "_cnn"))
    assert found(snapshot(libraries=rows), matrix) == []


def test_what_comes_with_the_driver_is_not_missing_here(matrix):
    opening = Opening("/x.so", "torch", "missing", "libcuda.so.1", "/x.so", text="libcuda.so.1: cannot open")
    assert found(snapshot(openings=(opening,)), matrix) == []


def test_a_companion_of_another_variant_is_left_to_its_own_rule(matrix):
    opening = Opening("/tv/_C.so", "torchvision", "missing", "libc10_cuda.so", "/tv/_C.so", text="libc10_cuda.so: …")
    packages = (Package("torch", "2.13.0+cpu", "cpu"), Package("torchvision", "0.29.1+cu130", "cu130"))
    assert found(snapshot(openings=(opening,), packages=packages), matrix) == []
    same = (Package("torch", "2.13.0+cu130", "cu130"), Package("torchvision", "0.29.1+cu130", "cu130"))
    assert found(snapshot(openings=(opening,), packages=same), matrix) == [("LIB111", "error", "torchvision")]


@pytest.mark.parametrize(
    ("name", "rule"), [("GLIBC_2.34", "LIB121"), ("GLIBCXX_3.4.32", "LIB120"), ("CXXABI_1.3.15", "LIB120")]
)
def test_a_version_that_is_not_there_names_the_library_that_lacks_it(matrix, name, rule):
    opening = Opening("/x.so", "flash-attn", "version", name, "/x.so", "/lib/libfoo.so.6")
    assert found(snapshot(openings=(opening,)), matrix) == [(rule, "error", "flash-attn")]


def test_files_for_several_pythons_in_one_folder_are_no_mismatch(matrix):
    rows = (Opening("/x.cpython-310.so", "ext", "python", "3.10"), Opening("/x.cpython-311.so", "ext"))
    assert found(snapshot(openings=rows), matrix) == []


def test_without_the_search_worked_out_every_rule_is_skipped_and_none_passes(matrix):
    stack = msgspec.structs.replace(Stack(), libraries=unknown("libraries: gone"), openings=unknown("openings: gone"))
    outcome = judge(msgspec.structs.replace(Snapshot(), stack=stack), matrix, RULES)
    assert outcome.findings == ()
    assert {skip.rule for skip in outcome.skipped} == {rule.id for rule in RULES}


def with_gpu(name: str, capability: str, *ptxas: str):
    tools = tuple(Toolkit(v, f"{SITE}/triton/backends/nvidia/bin/ptxas{i}") for i, v in enumerate(ptxas))
    snap = snapshot(ptxas=tools, packages=(Package("triton", "3.8.0"),))
    gpus = known((Gpu(name, capability=capability),), "test")
    return msgspec.structs.replace(snap, machine=msgspec.structs.replace(Machine(), gpus=gpus))


def test_a_bundled_ptxas_that_is_older_than_the_gpu_is_told(matrix):
    (problem,) = bundled_ptxas_problems(with_gpu("NVIDIA GeForce RTX 5090", "12.0", "12.4.99"), matrix)
    assert "triton 3.8.0's ptxas 12.4.99 can't compile for the RTX 5090 (sm_120)" in problem.message


def test_the_newest_ptxas_of_a_package_counts(matrix):
    assert not list(bundled_ptxas_problems(with_gpu("NVIDIA GeForce RTX 5090", "12.0", "12.4.99", "13.3.33"), matrix))


def test_an_old_gpu_is_known_to_every_ptxas(matrix):
    assert not list(bundled_ptxas_problems(with_gpu("NVIDIA A100-SXM4-40GB", "8.0", "12.4.99"), matrix))


def forward(branches: tuple[int, ...], driver: str, gpu: str = "NVIDIA A100-SXM4-40GB") -> Snapshot:
    compat = "/usr/local/cuda/compat/libcuda.so.1"
    snap = snapshot(
        libraries=(Library("libcuda.so.1", compat, "575.57.08", "compat", order=0, reason="ld.so.cache"),),
        compat="575.57.08",
        forward=ForwardNote(compat, "12.9", branches, loads=True),
    )
    capability = "8.6" if "RTX" in gpu else "8.0"
    gpus, kernel = known((Gpu(gpu, capability=capability),), "test"), known(Driver(driver), "test")
    return msgspec.structs.replace(snap, machine=msgspec.structs.replace(Machine(), gpus=gpus, driver=kernel))


def test_the_librarys_own_note_decides_on_the_drivers_branch(matrix):
    def rules(snap):
        return [finding.rule for finding in judge(snap, matrix, (forward_compat_unsupported_gpu,)).findings]

    assert rules(forward((535, 550, 575), "550.54.15")) == []
    assert rules(forward((535, 575), "550.54.15")) == ["DRV103"]
    assert rules(forward((535, 550, 575), "550.54.15", "NVIDIA GeForce RTX 3090")) == ["DRV103"]
