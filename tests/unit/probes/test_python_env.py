"""Which environment is judged, what is installed in it, and what its text files tell."""

import time

import pytest

from envcheck.probes.distributions import normalise
from envcheck.probes.inspect import inspect_host
from envcheck.probes.witness import parse_witness
from tests.machines.parts import ELF_X86, Link, Machine, build, distribution, python, torch, ubuntu, venv

PATH = {"PATH": "/usr/bin:/bin", "HOME": "/home/user"}
SITE = "/home/user/.venv/lib/python3.10/site-packages"
KNOWN = frozenset({"torch", "numpy", "jax", "onnxruntime-gpu"})


@pytest.fixture
def look(tmp_path):
    def inspect(files, env=PATH, python=None, known=KNOWN):
        folder = build(Machine({**ubuntu(), **files}), tmp_path / "m")
        return inspect_host(root=folder / "root", env=env, python=python, known=known).stack

    return inspect


def names(stack):
    return [(package.name, package.version) for package in stack.packages.get()]


def test_the_active_venv_wins_over_path(look):
    stack = look({**python(), **venv("/home/user/.venv"), **torch(SITE)}, {**PATH, "VIRTUAL_ENV": "/home/user/.venv"})
    assert (stack.python.get().kind, stack.python.source) == ("venv", "VIRTUAL_ENV")
    assert names(stack) == [("torch", "2.1.0+cu121")]


def test_a_venv_inside_conda_is_the_one_that_path_names_first(look):
    files = {**python(), **python("/opt/conda"), "/opt/conda/conda-meta/history": "", **venv("/home/user/.venv")}
    env = {**PATH, "VIRTUAL_ENV": "/home/user/.venv", "CONDA_PREFIX": "/opt/conda"}
    assert look(files, {**env, "PATH": "/home/user/.venv/bin:/opt/conda/bin"}).python.get().kind == "venv"


def test_conda_activated_after_a_venv_wins(look):
    files = {**python(), **python("/opt/conda"), "/opt/conda/conda-meta/history": "", **venv("/home/user/.venv")}
    env = {**PATH, "VIRTUAL_ENV": "/home/user/.venv", "CONDA_PREFIX": "/opt/conda"}
    assert look(files, {**env, "PATH": "/opt/conda/bin:/home/user/.venv/bin"}).python.get().kind == "conda"


def test_a_stale_virtual_env_variable_falls_back_to_path(look):
    stack = look(python(), {**PATH, "VIRTUAL_ENV": "/home/user/deleted"})
    assert (stack.python.get().executable, stack.python.source) == ("/usr/bin/python3", "PATH")


def test_no_python_at_all_is_known_and_not_unknown(look):
    stack = look({})
    assert stack.python.known
    assert stack.python.value is None
    assert stack.packages.get() == ()


def test_a_pyenv_shim_is_followed_without_running_it(look):
    files = {
        "/home/user/.pyenv/shims/python3": "#!/bin/sh\nexec pyenv exec\n",
        "/home/user/.pyenv/version": "3.11.7\n",
        **python("/home/user/.pyenv/versions/3.11.7", "3.11", "3.11.7"),
    }
    told = look(files, {**PATH, "PATH": "/home/user/.pyenv/shims:/usr/bin"}).python.get()
    assert (told.version, told.kind) == ("3.11.7", "pyenv")


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ("/nowhere/python", "there is no /nowhere/python"),
        ("/etc", "/etc is a folder without bin/python"),
        ("python9", "no 'python9' on PATH"),
        ("/etc/os-release", "/etc/os-release is no Python, or broken"),
        ("/dangling", "there is no /dangling"),
    ],
)
def test_a_wrong_interpreter_is_said_and_the_rest_is_judged(look, wanted, reason):
    stack = look({"/dangling": Link("/gone")}, python=wanted)
    assert reason in stack.python.unknown
    assert reason in stack.packages.unknown
    assert stack.glibc.value == "2.35"


def test_an_environment_may_be_named_by_its_folder(look):
    stack = look({**python(), **venv("/home/user/.venv"), **torch(SITE)}, python="/home/user/.venv")
    assert names(stack) == [("torch", "2.1.0+cu121")]


def test_a_free_threaded_interpreter_is_told_by_its_folder(look):
    files = {"/usr/bin/python3": Link("python3.13t"), "/usr/bin/python3.13t": ELF_X86, "/usr/lib/python3.13t/os.py": ""}
    told = look(files).python.get()
    assert (told.version, told.free_threaded, told.headers) == ("3.13", True, False)


def test_of_two_pythons_in_usr_the_one_that_the_link_names_counts(look):
    files = {**python(version="3.12", patch="3.12.3"), **python()}
    assert look(files).python.get().version == "3.10.12"


def test_the_user_site_comes_before_the_system_and_not_into_a_venv(look):
    user = "/home/user/.local/lib/python3.10/site-packages"
    files = {**python(), **torch(user, "2.0.1+cu118", "11.8"), **torch("/usr/local/lib/python3.10/dist-packages")}
    assert names(look(files)) == [("torch", "2.0.1+cu118"), ("torch", "2.1.0+cu121")]


def test_a_venv_sees_no_user_site(look):
    user = "/home/user/.local/lib/python3.10/site-packages"
    files = {**python(), **venv("/home/user/.venv"), **torch(user)}
    assert names(look(files, {**PATH, "VIRTUAL_ENV": "/home/user/.venv"})) == []


def test_lib64_that_is_a_link_to_lib_is_read_once(look):
    files = {**python(), **venv("/home/user/.venv"), "/home/user/.venv/lib64": Link("lib"), **torch(SITE)}
    assert len(names(look(files, python="/home/user/.venv"))) == 1


def test_pythonpath_comes_first(look):
    files = {**python(), **torch("/work/libs", "2.2.0+cpu", None), **torch("/usr/local/lib/python3.10/dist-packages")}
    found = look(files, {**PATH, "PYTHONPATH": "/work/libs:relative"})
    assert names(found)[0] == ("torch", "2.2.0+cpu")


def test_a_folder_that_is_gone_makes_a_distribution_broken_and_not_absent(look):
    files = {path: text for path, text in torch(SITE).items() if ".dist-info/" in path}
    (package,) = look({**python(), **venv("/home/user/.venv"), **files}, python="/home/user/.venv").packages.get()
    assert package.broken == "its folder torch/ is missing"


def test_the_remains_of_an_upgrade_are_no_second_install(look):
    files = {
        **torch(SITE),
        f"{SITE}/torch-2.0.0.dist-info/RECORD": "",
        f"{SITE}/~orch-1.0.dist-info/METADATA": "Version: 1\n",
    }
    assert names(look({**python(), **venv("/home/user/.venv"), **files}, python="/home/user/.venv")) == [
        ("torch", "2.1.0+cu121")
    ]


def test_a_top_level_that_is_a_path_breaks_nothing(look):
    library = "nvidia/cusparselt/lib/libcusparseLt.so.0"
    files = distribution(SITE, "nvidia-cusparselt-cu13", "0.8.1", files={library: ""})
    place = f"{SITE}/nvidia_cusparselt_cu13-0.8.1.dist-info"
    files = {path: text for path, text in files.items() if "__init__" not in path}
    files[f"{place}/RECORD"] = f"{library},,\n"
    files[f"{place}/top_level.txt"] = "nvidia\nnvidia/cusparselt\n"
    (package,) = look({**python(), **venv("/home/user/.venv"), **files}, python="/home/user/.venv").packages.get()
    assert package.broken == ""


def test_two_dist_infos_of_one_name_are_two_rows(look):
    files = {**torch(SITE), **torch(SITE, "2.2.0+cu121")}
    found = names(look({**python(), **venv("/home/user/.venv"), **files}, python="/home/user/.venv"))
    assert [name for name, _ in found] == ["torch", "torch"]


def test_an_editable_install_is_not_broken(look):
    place = f"{SITE}/torch-2.1.0.dist-info"
    files = {
        f"{place}/METADATA": "Version: 2.1.0\n\n",
        f"{place}/RECORD": "__editable__.torch-2.1.0.pth,,\ntorch-2.1.0.dist-info/RECORD,,\n",
        f"{place}/top_level.txt": "torch\n",
    }
    (package,) = look({**python(), **venv("/home/user/.venv"), **files}, python="/home/user/.venv").packages.get()
    assert package.broken == ""


def test_only_known_names_and_nvidias_are_reported(look):
    files = {
        **torch(SITE),
        **distribution(SITE, "requests", "2.0"),
        **distribution(SITE, "nvidia-whatever-cu12", "1.0"),
    }
    found = names(look({**python(), **venv("/home/user/.venv"), **files}, python="/home/user/.venv"))
    assert [name for name, _ in found] == ["nvidia-whatever-cu12", "torch"]


def test_debian_packages_and_eggs_are_found(look):
    site = "/usr/lib/python3/dist-packages"
    files = {f"{site}/numpy-1.24.2.egg-info": "Metadata-Version: 2.1\nName: numpy\nVersion: 1.24.2\n\n"}
    (package,) = look({**python(), **files}).packages.get()
    assert (package.version, package.installer) == ("1.24.2", "apt")


def test_requirements_are_kept_for_what_matters_only(look):
    files = torch(SITE, requires=["nvidia-cudnn-cu12==8.9.2.26; platform_system == 'Linux'", "sympy", "numpy<2"])
    (package,) = look({**python(), **venv("/home/user/.venv"), **files}, python="/home/user/.venv").packages.get()
    assert package.requires == ("nvidia-cudnn-cu12==8.9.2.26; platform_system == 'Linux'", "numpy<2")


@pytest.mark.parametrize(
    ("text", "version", "cuda", "variant"),
    [
        (
            "__version__ = '2.5.1+cu124'\ncuda: Optional[str] = '12.4'\nhip: Optional[str] = None\n",
            "2.5.1+cu124",
            "12.4",
            None,
        ),
        ("__version__ = '2.5.1'\ncuda = None\nhip = None\n", "2.5.1", None, "cpu"),
        ("__version__ = '2.4.0+cu124'\ncuda = '12.4'\n", "2.5.1", "12.4", None),
        ("package_name = 'x'\n__version__ = '2.5.1'\ncuda_version = '12.4'\n", "2.5.1", "12.4", None),
        ("bad = [('cuda_version', '12.5.1'), ('is_cuda_build', True)]", "2.5.1", "12.5.1", None),
        ("x = {'is_cuda_build': False, 'is_rocm_build': True}", "2.5.1", None, "rocm"),
        ("import os\nos.system('x')\n", "2.5.1", None, None),
    ],
)
def test_version_files_are_read_as_text(text, version, cuda, variant):
    told = parse_witness(text, "2.5.1", "f")
    assert (told.version, told.cuda, told.variant) == (version, cuda, variant)


@pytest.mark.parametrize(("name", "normal"), [("Nvidia_cuDNN.cu12", "nvidia-cudnn-cu12"), ("a--b__c", "a-b-c")])
def test_names_are_normalised(name, normal):
    assert normalise(name) == normal


def test_five_thousand_distributions_take_less_than_three_seconds(look, tmp_path):
    files = {f"{SITE}/package_{n}-1.{n}.dist-info/METADATA": f"Version: 1.{n}\n\n" for n in range(5000)}
    look({**python(), **venv("/home/user/.venv"), **files}, python="/home/user/.venv")
    started = time.process_time()
    stack = inspect_host(root=tmp_path / "m/root", env=PATH, python="/home/user/.venv").stack  # every one is read
    assert time.process_time() - started < 20  # seconds of CPU, measured or traced: what is meant is not quadratic
    assert len(stack.packages.get()) == 5000


def test_a_normal_environment_is_read_in_a_blink(look, tmp_path):
    files = {f"{SITE}/package_{n}-1.{n}.dist-info/METADATA": "Version: 1\n\n" for n in range(300)}
    look({**python(), **venv("/home/user/.venv"), **files, **torch(SITE)}, python="/home/user/.venv")
    times = []
    for _ in range(5):
        started = time.perf_counter()
        inspect_host(root=tmp_path / "m/root", env=PATH, python="/home/user/.venv", known=KNOWN)
        times.append(time.perf_counter() - started)
    assert min(times) < 1  # a twentieth of it when it is measured; tracing and load are no fault
