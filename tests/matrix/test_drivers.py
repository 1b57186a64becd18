"""Which driver runs which CUDA, natively, by minor version or by a compat package."""

import pytest


@pytest.mark.parametrize(
    ("driver", "cuda"),
    [
        ("535.104.05", "12.2"),
        ("525", "12.0"),
        ("470.57.02", "11.4"),
        ("565.57.01", "12.7"),  # prints a CUDA that has no toolkit
        ("418.39", "10.1"),
        ("595.91.07", "13.2"),
        ("1.0", None),
        ("", None),
    ],
)
def test_a_driver_runs_the_cuda_of_its_branch(matrix, driver, cuda):
    assert matrix.driver_cuda(driver) == cuda


@pytest.mark.parametrize(
    ("driver", "cuda", "how"),
    [
        ("535.54.03", "12.1", "native"),
        ("535.54.03", "11.8", "native"),
        ("525.60.13", "12.4", "minor"),
        ("525.53", "12.4", "no"),
        ("525", "12.4", "minor"),
        ("470.57.02", "12.1", "no"),
        ("470.57.02", "11.8", "minor"),
        ("450.51.05", "11.2", "no"),
        ("535.54.03", "13.0", "no"),
        ("580.65.06", "13.2", "minor"),
        ("390.46", "10.2", "no"),
        ("535.54.03", "77.7", None),
        ("nonsense", "12.1", None),
    ],
)
def test_how_a_driver_runs_a_cuda(matrix, driver, cuda, how):
    assert matrix.runs_cuda(driver, cuda) == how


def test_floors_of_a_minor_and_of_a_patch_release(matrix):
    assert matrix.driver_floor("12.2") == "535.54.03"
    assert matrix.driver_floor("12.2.2") == "535.104.05"
    assert matrix.minor_floor("12.2") == "525.60.13"
    assert matrix.driver_floor("12.1", "windows") == "531.14"


def test_there_is_no_minor_version_compatibility_before_cuda_11(matrix):
    assert matrix.minor_floor("10.2") is None


def test_previews_and_candidates_are_no_releases(matrix):
    assert matrix.driver_floor("11.0") == "450.51.05"
    assert matrix.cuda_release("13.4").version == "13.4.1"


def test_the_newest_patch_release(matrix):
    assert matrix.newest_patch("12.1") == "12.1.1"
    assert matrix.newest_patch("12.7") is None


@pytest.mark.parametrize(
    ("driver", "cuda", "works"),
    [
        ("535.54.03", "12.4", True),
        ("580.65.06", "12.9", False),
        ("545.23.08", "12.8", None),
        ("535.54.03", "99.9", None),
    ],
)
def test_compat_packages_work_where_nvidias_table_says(matrix, driver, cuda, works):
    assert matrix.forward_compat(driver, cuda) is works


def test_windows_branches_span_several_majors(matrix):
    assert matrix.branch("527.41", "windows").branch == 525
    assert matrix.driver_cuda("531.14", "windows") == "12.1"


def test_the_compilers_that_nvcc_accepts(matrix):
    assert matrix.host_compiler("12.1.1").gcc_max == 12
    assert matrix.host_compiler("13.4").gcc_max == 16
    assert matrix.host_compiler("99.0") is None


def test_a_driver_has_the_vulnerabilities_of_its_branch(matrix):
    old = matrix.open_vulnerabilities("nvidia-driver-linux", "535.274.01")
    assert {row.first_good for row in old} == {"535.274.02", "535.288.01", "535.309.01"}
    assert matrix.open_vulnerabilities("nvidia-driver-linux", "535.309.01") == ()


def test_a_bare_branch_tells_nothing_of_its_vulnerabilities(matrix):
    assert matrix.open_vulnerabilities("nvidia-driver-linux", "535") == ()


@pytest.mark.parametrize(
    ("version", "count"), [("1.1.12", 3), ("1.2.7", 3), ("1.2.8", 0), ("1.3.2", 3), ("1.3.3", 0), ("1.4.0", 0)]
)
def test_runc_is_fixed_by_release_line(matrix, version, count):
    assert len(matrix.open_vulnerabilities("runc", version)) == count


def test_the_toolkit_vulnerabilities_end_with_their_fixes(matrix):
    names = {row.id for row in matrix.open_vulnerabilities("nvidia-container-toolkit", "1.17.7")}
    assert names == {"CVE-2025-23266", "CVE-2025-23267", "CVE-2026-24260"}
    assert matrix.open_vulnerabilities("nvidia-container-toolkit", "1.19.1") == ()
