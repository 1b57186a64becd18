"""One fault has one id, whether it is met in a live host, a paste, an image or a Dockerfile."""

from __future__ import annotations

import msgspec
import pytest

from envcheck.expected import complete
from envcheck.inspection import Description
from envcheck.machines import describe_machine, pair
from envcheck.model.fact import known
from envcheck.model.image import FoundFile, ImageConfig, LayerReading
from envcheck.model.snapshot import Origin, Snapshot
from envcheck.model.stack import Package, Python, Stack
from envcheck.readers.detect import read_report
from envcheck.readers.files import FileOptions, read_file
from envcheck.readers.image_config import read_image
from envcheck.readers.image_files import add_files
from envcheck.rules import ALL
from envcheck.rules.engine import judge
from envcheck.versions import cuda_from_tag, local_variant

# cause -> (packages, GPU, driver, Python)
FAULTS = {
    "gpu-too-new-for-build": (["torch==2.1.0+cu121"], "RTX 5090", "575.51.03", "3.11"),
    "gpu-too-old-for-build": (["torch==2.9.0+cu128"], "GTX 970", "570.86.10", "3.11"),
    "driver-too-old-for-cuda": (["torch==2.9.0+cu128"], "Tesla T4", "470.82.01", "3.11"),
    "gpu-dropped-by-driver": (["torch==2.9.0+cu126"], "GTX 970", "590.48.01", "3.11"),
    "minor-version-compat-ok": (["torch==2.9.0+cu128"], "Tesla T4", "535.54.03", "3.11"),
    "cpu-only-build": (["torch==2.4.0+cpu"], "Tesla T4", "550.54.14", "3.11"),
    "rocm-build-on-nvidia": (["torch==2.4.0+rocm6.1"], "Tesla T4", "550.54.14", "3.11"),
    "torch-torchvision-mismatch": (["torch==2.4.0+cu121", "torchvision==0.16.0"], "Tesla T4", "550.54.14", "3.11"),
    "numpy2-abi": (["torch==2.1.0+cu121", "numpy==2.1.3"], "Tesla T4", "550.54.14", "3.11"),
    "ort-cpu-gpu-packages-conflict": (
        ["onnxruntime==1.17.0", "onnxruntime-gpu==1.17.0"], "Tesla T4", "550.54.14", "3.11",
    ),
    "extension-abi-mismatch": (["torch==2.4.0+cu121", "xformers==0.0.22"], "Tesla T4", "550.54.14", "3.11"),
    "jax-plugin-version-mismatch": (
        ["jax==0.4.35", "jaxlib==0.4.35", "jax-cuda12-plugin==0.4.31", "jax-cuda12-pjrt==0.4.31"],
        "Tesla T4", "550.54.14", "3.11",
    ),
}  # fmt: skip


def split(text: str) -> tuple[str, str]:
    name, _, version = text.partition("==")
    return name, version


def machine(matrix, gpu, driver):
    return describe_machine(Description(gpu=gpu, driver=driver), matrix, lambda: None)


def on_host(packages, gpu, driver, python, matrix):
    rows = []
    for text in packages:
        name, version = split(text)
        variant = local_variant(version)
        cuda = cuda_from_tag(variant) if variant else None
        rows.append(Package(name, version, variant, cuda, installer="pip", source=f"/venv/{name}.dist-info/METADATA"))
    stack = Stack(
        python=known(Python(python), "pyvenv.cfg"),
        packages=known(tuple(rows), "/venv"),
        complete=known(True, "/venv"),
    )
    return Snapshot(origin=Origin("host", "here"), machine=machine(matrix, gpu, driver), stack=stack)


def in_a_paste(packages, gpu, driver, python, matrix):
    model = matrix.get_gpu(gpu).name
    lines = [
        "Collecting environment information...",
        f"Python version: {python}.9 (main) [GCC 11.4.0] (64-bit runtime)",
        "Is CUDA available: True",
        f"GPU models and configuration: GPU 0: {model}",
        f"Nvidia driver version: {driver}",
        "",
        "Versions of relevant libraries:",
        *(f"[pip3] {text}" for text in packages),
    ]
    return read_report("\n".join(lines) + "\n", name="issue.txt", symptoms=matrix.symptoms)


def in_an_image(packages, gpu, driver, python, matrix):
    files = []
    for text in packages:
        name, version = split(text)
        path = f"/usr/local/lib/python{python}/dist-packages/{name.replace('-', '_')}-{version}.dist-info/METADATA"
        files.append(FoundFile(path, f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()))
    snap = read_image(ImageConfig("registry.corp/team/app:1", "registry test", arch="amd64", env={"PATH": "/usr/bin"}))
    snap = add_files(snap, LayerReading(tuple(files)), "layers")
    return complete(pair(snap, machine(matrix, gpu, driver), "a node"), matrix)


def in_a_dockerfile(packages, gpu, driver, python, matrix):
    text = (
        f"FROM python:{python}-slim-bookworm\nRUN pip install \\\n" + " \\\n".join(f"    {p}" for p in packages) + "\n"
    )
    (snap,) = read_file(text, name="Dockerfile", kind="dockerfile", options=FileOptions())
    return complete(pair(snap, machine(matrix, gpu, driver), "a node"), matrix)


def judged(way, cause, matrix):
    """Everywhere the same question: a GPU is needed."""
    snap = way(*FAULTS[cause], matrix)
    snap = msgspec.structs.replace(snap, wants=msgspec.structs.replace(snap.wants, gpu=True, source="--require-gpu"))
    return judge(snap, matrix, ALL)


WAYS = (on_host, in_a_paste, in_an_image, in_a_dockerfile)


@pytest.mark.parametrize("cause", FAULTS)
def test_the_same_fault_has_the_same_id_wherever_it_is_met(cause, matrix):
    ids = {}
    for way in WAYS:
        outcome = judged(way, cause, matrix)
        ids[way.__name__] = sorted({finding.rule for finding in outcome.findings if finding.cause == cause})
    assert ids["on_host"], f"no rule finds {cause} on a host: {ids}"
    assert len(set(map(tuple, ids.values()))) == 1, ids


@pytest.mark.parametrize("cause", sorted(set(FAULTS) - {"gpu-dropped-by-driver"}))  # that one is the machine's own
def test_in_a_dockerfile_it_has_its_line(cause, matrix):
    outcome = judged(in_a_dockerfile, cause, matrix)
    finding = next(finding for finding in outcome.findings if finding.cause == cause)
    assert finding.path == "Dockerfile"
    assert finding.line in range(3, 3 + len(FAULTS[cause][0]))


def test_there_are_at_least_ten():
    assert len(FAULTS) >= 10


def test_findings_of_a_host_have_no_path(matrix):
    outcome = judge(on_host(*FAULTS["gpu-too-new-for-build"], matrix), matrix, ALL)
    assert {finding.path for finding in outcome.findings} == {""}


def test_the_snapshots_survive_their_own_json(matrix):
    for way in WAYS:
        snap = way(*FAULTS["gpu-too-new-for-build"], matrix)
        assert msgspec.json.decode(msgspec.json.encode(snap), type=Snapshot) == snap
