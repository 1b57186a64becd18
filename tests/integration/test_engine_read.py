"""Local images and containers of a real engine: read by inspect and the archive API, never run."""

import io
import json
import tarfile

import pytest

from envcheck.errors import InspectError, UsageError
from envcheck.image_targets import find_local, inspect_container
from envcheck.inspection import ImageOptions

pytestmark = pytest.mark.integration
SITE = "usr/local/lib/python3.10/dist-packages"
TREE = {
    f"{SITE}/torch-2.1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: torch\nVersion: 2.1.0\n",
    f"{SITE}/torch/version.py": b"__version__ = '2.1.0+cu121'\ncuda = '12.1'\n",
    "etc/os-release": b'ID=ubuntu\nVERSION_ID="22.04"\nPRETTY_NAME="Ubuntu 22.04"\n',
    "var/lib/dpkg/status": b"Package: libc6\nStatus: install ok installed\nVersion: 2.35-0ubuntu3.8\n\n",
}
ENV = {
    "CUDA_VERSION": "12.1.1",
    "NVIDIA_VISIBLE_DEVICES": "all",
    "NVIDIA_REQUIRE_CUDA": "cuda>=12.1",
    "PATH": "/usr/local/bin:/usr/bin",
}


@pytest.fixture(autouse=True)
def here(engine_env, monkeypatch):
    for name, value in engine_env.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def image(engine):
    """An image like one of NVIDIA's, without a program in it: nothing could be run even by mistake."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in TREE.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    changes = [*(f"ENV {key}={value}" for key, value in ENV.items()), 'CMD ["/no/program"]']
    engine.api.import_image_from_data(buffer.getvalue(), repository="envcheck-test", tag="local", changes=changes)
    yield "envcheck-test:local"
    engine.images.remove("envcheck-test:local", force=True)


@pytest.fixture(scope="module")
def box(engine, image):
    container = engine.containers.create(image, name="envcheck-box", shm_size="1g", network_mode="host")
    yield container
    container.remove(force=True)


def test_a_local_image_is_told_by_its_config(image):
    snap = find_local(image)
    assert snap.stack.cuda.get() == "12.1.1"
    assert snap.stack.image.get().digest.startswith("sha256:")
    assert snap.stack.env.get()["NVIDIA_REQUIRE_CUDA"] == "cuda>=12.1"
    assert snap.stack.cuda.source.startswith("docker: local image")


def test_no_such_local_image(image):
    assert find_local("envcheck-test:other") is None


def test_a_container_by_its_files_and_how_it_was_made(box):
    snap = inspect_container("envcheck-box", ImageOptions())
    assert snap.stack.distro.get().version == "22.04"
    assert snap.stack.glibc.get() == "2.35"
    assert snap.machine.shm_bytes.get() == 1 << 30
    assert snap.wants.gpus_requested is False
    assert snap.wants.gpu is True
    assert not snap.stack.packages.known


def test_its_packages_too_with_layers(box):
    snap = inspect_container("envcheck-box", ImageOptions(layers=True))
    (torch,) = snap.stack.packages.get()
    assert (torch.name, torch.version, torch.variant, torch.cuda) == ("torch", "2.1.0", "cu121", "12.1")
    assert snap.stack.python.get().version == "3.10"


def test_the_container_was_not_started(box):
    inspect_container("envcheck-box", ImageOptions(layers=True))
    box.reload()
    assert box.status == "created"


def test_a_container_that_asks_for_gpus(engine, image):
    import docker

    wish = docker.types.DeviceRequest(count=-1, capabilities=[["gpu"]])
    container = engine.containers.create(image, name="envcheck-gpus", device_requests=[wish], ipc_mode="host")
    try:
        snap = inspect_container("envcheck-gpus", ImageOptions())
        assert snap.wants.gpus_requested is True
        assert not snap.machine.shm_bytes.known  # the host's own
    finally:
        container.remove(force=True)


def test_a_wrong_name_names_the_nearest(box):
    with pytest.raises(UsageError) as caught:
        inspect_container("envcheck-bx", ImageOptions())
    assert "envcheck-box" in caught.value.what_to_do


def test_no_engine_is_said_with_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(InspectError) as caught:
        inspect_container("x", ImageOptions())
    assert "DOCKER_HOST" in caught.value.what_to_do
    assert find_local("x") is None


def test_the_command_line_judges_a_local_image(image, envcheck, engine_env):
    done = envcheck("doctor", image, "--gpu", "A100 80GB", "--driver", "535.183.01", "--format", "json", env=engine_env)
    assert done.returncode in (0, 1), done.stderr
    assert json.loads(done.stdout)["snapshot"]["stack"]["cuda"]["value"] == "12.1.1"


def test_the_command_line_on_a_word_that_is_nothing(image, envcheck, engine_env):
    done = envcheck("doctor", "nothing-of-the-kind", env=engine_env)
    assert done.returncode == 2
    assert b"neither a file here nor an image" in done.stderr
