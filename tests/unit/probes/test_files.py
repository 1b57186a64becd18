"""The small readers: ld.so.cache, package databases, CDI specs, kernel log, driver version, PCI addresses."""

# ruff: noqa: E501 - tables read better whole

import contextlib
import os
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.probes.container_toolkit import parse_cdi
from envcheck.probes.kernel_driver import find_driver, parse_xids
from envcheck.probes.ld_cache import Cached, parse_cache, read_cache
from envcheck.probes.package_db import parse_dpkg, upstream
from envcheck.probes.pci import same_bus
from envcheck.probes.tree import Tree, Unreadable, shown
from tests.machines.parts import cache_bytes


def test_the_cache_of_this_machine_reads_as_ldconfig_prints_it():
    printed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    expected = {
        line.split(" => ")[1] for line in printed.splitlines() if " => " in line and line.strip().startswith("libc.")
    }
    assert expected
    assert {entry.path for entry in read_cache(Tree(), "libc.")} == expected


@pytest.mark.parametrize("old_header", [False, True])
def test_both_forms_of_the_cache_are_read(old_header):
    data = cache_bytes({"libcuda.so.1": "/usr/lib/libcuda.so.1", "libc.so.6": "/lib/libc.so.6"}, old_header)
    assert parse_cache(data, "libcuda.so") == (Cached("libcuda.so.1", "/usr/lib/libcuda.so.1", 0x0303),)


@given(st.binary(max_size=300))
def test_any_bytes_are_no_cache_or_one(data):
    parse_cache(data, "lib")
    parse_cache(b"glibc-ld.so.cache1.1" + data, "lib")
    parse_cache(b"ld.so-1.7.0\0" + data, "lib")


@given(st.integers(0, 140), st.integers(0, 255))
def test_a_damaged_cache_raises_nothing(place, value):
    data = bytearray(cache_bytes({"libcuda.so.1": "/usr/lib/libcuda.so.1"}))
    data[min(place, len(data) - 1)] = value
    parse_cache(bytes(data), "libcuda")


def test_a_removed_package_is_not_installed():
    text = (
        b"Package: docker-ce\nStatus: deinstall ok config-files\nVersion: 5:27.1.0-1\n\n"
        b"Package: runc\nStatus: install ok installed\nVersion: 1.1.5+ds1-1+deb12u1\n\n"
        b"Package: bash\nStatus: install ok installed\nVersion: 5\n"
    )
    assert parse_dpkg(text) == {"runc": "1.1.5+ds1-1+deb12u1"}


@pytest.mark.parametrize(
    ("version", "number"),
    [
        ("27.3.1-1~ubuntu.22.04~jammy", "27.3.1"),
        ("1.17.4-1", "1.17.4"),
        ("1.1.5+ds1-1", "1.1.5"),
        ("20.10.24", "20.10.24"),
    ],
)
def test_the_distributions_revision_is_cut_off(version, number):
    assert upstream(version) == number


def test_cdi_devices_of_json_and_of_other_kinds():
    text = '{"kind": "nvidia.com/gpu", "devices": [{"name": "0"}, {"name": "GPU-1"}]}'
    assert parse_cdi(text) == {"nvidia.com/gpu=0", "nvidia.com/gpu=GPU-1"}
    assert parse_cdi(text.replace("nvidia.com", "vendor.com")) == set()


@given(st.text(max_size=200))
def test_any_text_is_a_cdi_spec_or_none(text):
    parse_cdi(text)
    parse_cdi("{" + text)
    parse_cdi("kind: nvidia.com/gpu\n" + text)


def test_xids_are_read_from_both_forms_of_the_log_and_once():
    text = (
        "4,1,2,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"
        "[  1.0] NVRM: Xid (PCI:0000:3b:00): 31, pid=2, MMU Fault\n[  1.0] NVRM: Xid (PCI:0000:3b:00): 31, pid=2, MMU Fault\n"
    )
    assert [event.code for event in parse_xids(text, "log")] == [79, 31]


@pytest.mark.parametrize(
    ("text", "version", "flavour"),
    [
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.256.02  Thu May  2 14:37:44 UTC 2024\n",
            "470.256.02",
            "proprietary",
        ),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.10  Release Build\n", "570.86.10", "open"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  550.54.15  Release Build\n", "550.54.15", "open"),
        ("NVRM version: NVIDIA UNIX aarch64 Kernel Module  535.104.05  Sat Aug\n", "535.104.05", "proprietary"),
    ],
)
def test_the_version_line_of_the_module(tmp_path, text, version, flavour):
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    (tmp_path / "proc/driver/nvidia/version").write_text(text)
    driver = find_driver(Tree(str(tmp_path)))
    assert driver is not None
    assert (driver.version, driver.flavour) == (version, flavour)


@pytest.mark.parametrize("address", ["00000000:3B:00.0", "0000:3b:00.0", "0000:3B:00.0"])
def test_pci_addresses_of_nvml_and_sysfs_are_one(address):
    assert same_bus(address) == "0000:3b:00.0"


@given(st.binary(max_size=50))
def test_any_file_name_can_be_shown(name):
    shown(os.fsdecode(name)).encode()


def test_a_link_loop_is_unreadable_and_a_missing_file_is_absent(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    tree = Tree(str(tmp_path))
    with pytest.raises(Unreadable):
        tree.read_text("/a")
    assert tree.read_text("/c") is None
    assert tree.names("/c") == []


def test_a_file_is_read_up_to_the_cap(tmp_path):
    (tmp_path / "f").write_bytes(b"x" * 5000)
    assert len(Tree(str(tmp_path)).read_bytes("/f", 100) or b"") == 100


def test_files_of_proc_that_have_no_size_are_read_whole():
    assert "VmRSS" in (Tree().read_text("/proc/self/status") or "")


@pytest.mark.parametrize("name", ["a\0b", "x" * 5000])
@pytest.mark.parametrize("ask", ["read_text", "exists", "names"])
def test_impossible_names_raise_nothing_but_unreadable(tmp_path, ask, name):
    with contextlib.suppress(Unreadable):
        assert not getattr(Tree(str(tmp_path)), ask)(f"/{name}")
