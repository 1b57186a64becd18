"""Files that describe an environment: what each reader takes from a file as people write it, with its lines."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envcheck.errors import EnvcheckError, InspectError
from envcheck.readers.files import FileOptions, read_file, recognise
from envcheck.readers.shell_steps import read_steps


def read(text, name, **options):
    kind = recognise(text, name)
    assert kind is not None, name
    return read_file(text, name=name, kind=kind, options=FileOptions(**options))


def one(text, name, **options):
    (snap,) = read(text, name, **options)
    return snap


def package(snap, name):
    return next(p for p in snap.stack.packages.get() if p.name == name)


DOCKERFILE = """\
ARG CUDA=12.1.1
FROM nvidia/cuda:${CUDA}-devel-ubuntu22.04 AS build
RUN pip wheel flash-attn
FROM nvidia/cuda:${CUDA}-runtime-ubuntu22.04
ENV PIP_EXTRA_INDEX_URL=https://download.example/whl/cu118
ARG TORCH=2.1.0
RUN apt-get update && apt-get install -y \\
      python3-pip \\
      nvidia-driver-535
RUN pip install --no-cache-dir \\
      torch==${TORCH} \\
      torchvision==0.16.0
RUN bash -c "pip install 'numpy<2'"
"""


def test_a_dockerfile_gives_base_packages_and_lines():
    snap = one(DOCKERFILE, "docker/Dockerfile")
    assert snap.stack.image.get().reference == "nvidia/cuda:12.1.1-runtime-ubuntu22.04"
    assert snap.recipe.base.source == "docker/Dockerfile:4"
    torch = package(snap, "torch")
    assert (torch.version, torch.variant, torch.cuda, torch.source) == (
        "2.1.0",
        "cu118",
        "11.8",
        "docker/Dockerfile:11",
    )
    assert package(snap, "torchvision").source == "docker/Dockerfile:12"
    assert not package(snap, "numpy").pinned
    apt = next(step for step in snap.recipe.steps if step.manager == "apt")
    assert apt.where(apt.names.index("nvidia-driver-535")) == "docker/Dockerfile:9"


def test_build_arguments_and_target_stage():
    snap = one(DOCKERFILE, "Dockerfile", args={"CUDA": "12.4.1", "TORCH": "2.4.0"})
    assert snap.stack.image.get().reference.startswith("nvidia/cuda:12.4.1")
    assert package(snap, "torch").version == "2.4.0"
    build = one(DOCKERFILE, "Dockerfile", target="build")
    assert "devel" in build.stack.image.get().reference


def test_a_stage_on_a_stage_inherits_its_installs():
    text = "FROM python:3.11 AS base\nRUN pip install torch==2.1.0\nFROM base\nRUN pip install torchvision==0.16.0\n"
    names = [p.name for p in one(text, "Dockerfile").stack.packages.get()]
    assert names == ["torch", "torchvision"]


def test_another_stages_installs_count_only_where_they_are_copied():
    text = "FROM python:3.11 AS b\nRUN pip install torch==2.1.0\nFROM python:3.11\nCOPY --from=b {} /x\n"
    assert not one(text.format("/src/app.py"), "Dockerfile").stack.packages.known
    copied = one(text.format("/usr/local/lib/python3.11/site-packages"), "Dockerfile")
    assert package(copied, "torch").version == "2.1.0"


def test_a_base_that_hangs_on_an_argument_is_said_and_not_guessed():
    snap = one("ARG BASE\nFROM ${BASE}\nRUN pip install torch==2.1.0\n", "Dockerfile")
    assert not snap.stack.image.known
    assert "--build-arg" in snap.remarks[0]


@pytest.mark.parametrize(
    ("command", "version", "variant"),
    [
        ("pip install torch==2.1.0+cu121", "2.1.0+cu121", "cu121"),
        ("pip3 install -i https://x/whl/cu118 torch==2.1.0", "2.1.0", "cu118"),
        ("python3.11 -m pip install --index-url=https://x/whl/cpu torch==2.1.0", "2.1.0", "cpu"),
        ("uv pip install --system --torch-backend=cu128 torch==2.7.0", "2.7.0", "cu128"),
        ("/opt/venv/bin/pip install torch==2.1.0 -f https://x/whl/cu121/torch_stable.html", "2.1.0", "cu121"),
        ("PIP_INDEX_URL=https://x/whl/cu124 pip install torch==2.5.1", "2.5.1", "cu124"),
        ("sudo -E pip install torch==2.1.0 > /dev/null 2>&1", "2.1.0", None),
        ("if true; then pip install torch==2.1.0; fi", "2.1.0", None),
        ("pip install https://x/whl/cu121/torch-2.1.0%2Bcu121-cp310-cp310-linux_x86_64.whl", "2.1.0+cu121", "cu121"),
    ],
)
def test_how_people_call_pip(command, version, variant):
    torch = package(one(f"FROM a\nRUN {command}\n", "Dockerfile"), "torch")
    assert (torch.version, torch.variant) == (version, variant)


def test_the_requirements_that_a_dockerfile_installs_are_read_too():
    text = (
        "FROM python:3.11\nCOPY reqs/requirements.txt /app/\n"
        "RUN pip install --extra-index-url https://x/whl/cu121 -r /app/requirements.txt -r missing.txt\n"
    )
    files = {"reqs/requirements.txt": "torch==2.1.0\n"}
    (snap,) = read_file(text, name="sub/Dockerfile", kind="dockerfile", open_file=files.get)
    torch = package(snap, "torch")
    assert (torch.version, torch.variant, torch.source) == ("2.1.0", "cu121", "sub/reqs/requirements.txt:1")
    assert snap.recipe.files == ("sub/Dockerfile", "sub/reqs/requirements.txt")
    assert snap.remarks == ("sub/Dockerfile:3: missing.txt was not read",)


def test_a_conda_environment_that_a_dockerfile_creates_is_read_too():
    text = "FROM condaforge/miniforge3\nRUN mamba env create -f environment.yml\n"
    (snap,) = read_file(text, name="Dockerfile", kind="dockerfile", open_file={"environment.yml": ENVIRONMENT}.get)
    assert package(snap, "xformers").source == "environment.yml:9"


def test_conda_in_a_dockerfile():
    text = "FROM a\nRUN mamba install -y -c pytorch -c nvidia pytorch==2.1.0 pytorch-cuda=12.1\n"
    snap = one(text, "Dockerfile")
    torch = package(snap, "torch")
    assert (torch.version, torch.installer, torch.channel) == ("2.1.0", "conda", "pytorch")


def test_a_runfile_is_a_step():
    (step,) = read_steps("wget x && sh ./cuda_12.1.0_530.30.02_linux.run --silent", "D:1")
    assert (step.manager, step.names) == ("runfile", ("cuda_12.1.0_530.30.02_linux.run",))


COMPOSE = """\
x-common: &common
  image: nvcr.io/nvidia/pytorch:24.05-py3
services:
  train:
    <<: *common
    shm_size: "8gb"
    environment:
      - NVIDIA_VISIBLE_DEVICES=all
    deploy:
      resources:
        reservations:
          devices:
            - driver: nvidia
              count: all
              capabilities: [gpu]
  forgot:
    image: nvcr.io/nvidia/pytorch:24.05-py3
  short:
    image: nvidia/cuda:12.4.1-base-ubuntu22.04
    gpus: all
    ipc: host
  old:
    image: x
    runtime: nvidia
"""


def test_compose_tells_which_service_asks_for_gpus():
    snaps = {snap.recipe.service: snap for snap in read(COMPOSE, "compose.yaml")}
    asked = {name: snap.recipe.gpus_asked for name, snap in snaps.items()}
    assert asked == {"train": True, "forgot": False, "short": True, "old": True}
    assert snaps["train"].stack.image.get().reference == "nvcr.io/nvidia/pytorch:24.05-py3"
    assert snaps["forgot"].wants.source == "compose.yaml:16"
    assert snaps["train"].machine.shm_bytes.get() == 8 << 30
    assert snaps["forgot"].machine.shm_bytes.get() == 64 << 20
    assert not snaps["short"].machine.shm_bytes.known
    assert snaps["short"].recipe.ipc_host


def test_compose_builds_the_dockerfile_beside_it():
    text = "services:\n  app:\n    build:\n      context: ./app\n      args: {TORCH: 2.4.0}\n    gpus: all\n"
    files = {"app/Dockerfile": "FROM python:3.11\nARG TORCH=2.1.0\nRUN pip install torch==$TORCH\n"}
    (snap,) = read_file(text, name="compose.yaml", kind="compose", open_file=files.get)
    torch = package(snap, "torch")
    assert (torch.version, torch.source) == ("2.4.0", "app/Dockerfile:3")
    assert snap.recipe.files == ("compose.yaml", "app/Dockerfile")


def test_variables_of_a_compose_file_by_option_by_dotenv_and_by_none():
    text = "services:\n  a:\n    image: nvidia/cuda:${TAG}-base-ubuntu22.04\n"

    def image(env, files):
        options = FileOptions(args=env)
        (snap,) = read_file(text, name="compose.yaml", kind="compose", options=options, open_file=files.get)
        return snap

    assert image({"TAG": "12.4.1"}, {}).stack.image.get().reference == "nvidia/cuda:12.4.1-base-ubuntu22.04"
    assert "12.1.1" in image({}, {".env": "# x\nTAG='12.1.1'\n"}).stack.image.get().reference
    open_one = image({}, {})
    assert not open_one.stack.image.known
    assert "--build-arg" in open_one.remarks[0]


POD = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: t}
spec:
  template:
    spec:
      containers:
        - name: train
          image: nvcr.io/nvidia/pytorch:24.05-py3
          env: [{name: NVIDIA_DISABLE_REQUIRE, value: "1"}]
          resources:
            limits:
              nvidia.com/gpu: 8
          volumeMounts: [{name: shm, mountPath: /dev/shm}]
        - name: side
          image: busybox
      volumes:
        - name: shm
          emptyDir: {medium: Memory, sizeLimit: 16Gi}
"""


def test_a_deployment_gives_each_container():
    train, side = read(POD, "k8s.yaml")
    assert train.recipe.gpus_asked
    assert train.wants.source == "k8s.yaml:13"
    assert train.machine.shm_bytes.get() == 16 << 30
    assert train.stack.env.get()["NVIDIA_DISABLE_REQUIRE"] == "1"
    assert side.recipe.gpus_asked is False
    assert side.machine.shm_bytes.get() == 64 << 20


def test_a_mig_slice_is_a_gpu():
    (train, _) = read(POD.replace("nvidia.com/gpu: 8", "nvidia.com/mig-1g.10gb: 1"), "k8s.yaml")
    assert train.recipe.gpus_asked


DEVCONTAINER = """\
// For format details, see the reference
{
  "name": "x",
  /* two
     lines */
  "image": "nvidia/cuda:12.4.1-devel-ubuntu22.04",
  "runArgs": ["--gpus", "all", "--shm-size=2g",],
  "customizations": {"url": "http://not-a-comment"},
}
"""


def test_devcontainer_with_comments_and_trailing_commas():
    snap = one(DEVCONTAINER, ".devcontainer/devcontainer.json")
    assert snap.recipe.gpus_asked
    assert snap.recipe.base.source == ".devcontainer/devcontainer.json:6"
    assert snap.machine.shm_bytes.get() == 2 << 30


REQUIREMENTS = """\
# comment
--extra-index-url https://download.example/whl/cu121
torch==2.1.0
torchvision>=0.16,<0.17  # inline
numpy<2; python_version < "3.12"
tensorflow==2.15.0; sys_platform == "darwin"
transformers[torch]~=4.40
nvidia-cudnn-cu12==8.9.2.26 \\
    --hash=sha256:abc
-r more.txt
-e .
"""


def test_requirements_pins_ranges_markers_and_index():
    kind = recognise(REQUIREMENTS, "requirements.txt")
    (snap,) = read_file(
        REQUIREMENTS, name="requirements.txt", kind=kind, open_file={"more.txt": "xformers==0.0.22\n"}.get
    )
    names = [p.name for p in snap.stack.packages.get()]
    assert names == ["numpy", "nvidia-cudnn-cu12", "torch", "torchvision", "transformers", "xformers"]
    assert package(snap, "torch").variant == "cu121"
    assert package(snap, "torchvision").requirement == "torchvision>=0.16,<0.17"
    assert package(snap, "nvidia-cudnn-cu12").source == "requirements.txt:8"
    assert package(snap, "xformers").source == "more.txt:1"


def test_a_marker_for_another_python_drops_the_requirement():
    snap = one('numpy<2; python_version < "3.12"\ntorch>=2.1\n', "requirements.txt", python="3.13")
    assert [p.name for p in snap.stack.packages.get()] == ["torch"]


def test_hostile_requirement_lines_are_left_out():
    text = "torch==2.1.0\n$(touch /tmp/x)==1\n-r -\n--index-url\ntorch @ file:///etc/passwd\n../../x.whl\n"
    snap = one(text, "requirements.txt")
    assert [p.name for p in snap.stack.packages.get()] == ["torch"]


def test_a_frozen_list_under_another_name_is_a_report():
    assert recognise("torch==2.1.0\nnumpy==1.26.4\n", "issue.txt") is None
    assert recognise("torch>=2.1\nnumpy==1.26.4\n", "deps.txt") == "requirements"


UV_LOCK = """\
version = 1
requires-python = ">=3.10"

[[package]]
name = "torch"
version = "2.5.1+cu124"
source = { registry = "https://x/whl/cu124" }

[[package]]
name = "me"
version = "0"
source = { editable = "." }
"""
POETRY_LOCK = """\
[[package]]
name = "torch"
version = "2.5.1"
description = ""
"""
PYLOCK = """\
lock-version = "1.0"
[[packages]]
name = "torch"
version = "2.5.1"
index = "https://x/whl/cu121"
"""
PIPFILE_LOCK = """\
{
"_meta": {"sources": [{"name": "p", "url": "https://x/whl/cu118"}], "requires": {}},
"default": {
"torch": {"index": "p", "version": "==2.1.0"}
}}
"""
PYPROJECT = """\
[project]
name = "me"
dependencies = [
  "torch==2.5.1",
]
[tool.uv.sources]
torch = [{ index = "pt", marker = "sys_platform == 'linux'" }]
[[tool.uv.index]]
name = "pt"
url = "https://x/whl/cu124"
"""
LOCKS = {
    "uv.lock": (UV_LOCK, ("2.5.1+cu124", "cu124", 5)),
    "poetry.lock": (POETRY_LOCK, ("2.5.1", None, 2)),
    "pylock.toml": (PYLOCK, ("2.5.1", "cu121", 3)),
    "Pipfile.lock": (PIPFILE_LOCK, ("2.1.0", "cu118", 4)),
    "pyproject.toml": (PYPROJECT, ("2.5.1", "cu124", 4)),
}


@pytest.mark.parametrize("name", LOCKS)
def test_lock_files(name):
    text, (version, variant, line) = LOCKS[name]
    torch = package(one(text, name), "torch")
    assert (torch.version, torch.variant, torch.source) == (version, variant, f"{name}:{line}")


@pytest.mark.parametrize(
    ("text", "specifier"),
    [
        ("^2.1", "<3,>=2.1"),
        ("^0.3", "<0.4,>=0.3"),
        ("~2.1.3", "<2.2,>=2.1.3"),
        ("2.1.0", "==2.1.0"),
        (">=2,<3", "<3,>=2"),
    ],
)
def test_poetrys_ranges(text, specifier):
    toml = f'[tool.poetry]\nname = "x"\n[tool.poetry.dependencies]\npython = "^3.10"\ntorch = "{text}"\n'
    torch = package(one(toml, "pyproject.toml"), "torch")
    told = f"=={torch.version}" if torch.pinned else torch.requirement.removeprefix("torch")
    assert told == specifier


ENVIRONMENT = """\
name: x
channels: [pytorch, nvidia, conda-forge]
dependencies:
  - python=3.10
  - pytorch=2.1.*
  - conda-forge::tensorflow=2.15.0=cuda120*
  - pip
  - pip:
      - xformers==0.0.22
"""


def test_environment_yml():
    snap = one(ENVIRONMENT, "environment.yml")
    assert snap.stack.python.get().version == "3.10"
    assert package(snap, "torch").requirement == "torch==2.1.*"
    assert package(snap, "torch").source == "environment.yml:5"
    assert package(snap, "tensorflow").cuda == "12.0"
    assert package(snap, "xformers").source == "environment.yml:9"


def test_conda_lock():
    text = (
        "version: 1\nmetadata:\n  channels: []\npackage:\n- name: pytorch\n  version: 2.1.0\n  manager: conda\n"
        "  platform: linux-64\n  url: https://conda.example/linux-64/pytorch-2.1.0-py3.10_cuda12.1_cudnn8.9.2_0.tar.bz2\n"
        "- name: torchvision\n  version: 0.16.0\n  manager: pip\n  platform: linux-64\n  url: x\n"
        "- name: pytorch\n  version: 2.0.0\n  manager: conda\n  platform: osx-64\n  url: y\n"
    )
    snap = one(text, "conda-lock.yml")
    assert (package(snap, "torch").version, package(snap, "torch").cuda) == ("2.1.0", "12.1")
    assert package(snap, "torchvision").pinned


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{b}: &{b} [*{a},*{a},*{a},*{a},*{a},*{a},*{a},*{a},*{a}]\n" for a, b in zip("abcdefghi", "bcdefghij")
)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("compose.yaml", "services:\n  a:\n   image: x\n" + BOMB),
        ("compose.yaml", "services: &s\n  a: *s\n"),
        ("compose.yaml", "services: [" * 500),
        ("compose.yaml", "services:\n\tx: 1\n"),
        ("compose.yaml", "services: !!python/object/apply:os.system ['touch /tmp/x']\n"),
        ("Dockerfile", "RUN x\n"),
        ("uv.lock", "[[package]\n"),
        ("Pipfile.lock", "[" * 100_000),
        ("devcontainer.json", "{"),
        ("devcontainer.json", "[]"),
    ],
)
def test_bombs_and_nonsense_are_an_inspect_error(name, text):
    with pytest.raises(InspectError) as caught:
        read(text, name)
    assert name in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "Collecting environment information...\nPyTorch version: 2.1.0\n",
        'Traceback (most recent call last):\n  File "x"\nRuntimeError: CUDA error\n',
        "Package Version\n------- -------\ntorch 2.1.0\n",
        "From: me\nTo: you\n",
        '{"schema": 1, "origin": {"kind": "host"}}',
        "",
    ],
)
def test_reports_are_not_taken_for_files(text):
    assert recognise(text, "issue.txt") is None


FRAGMENT = st.sampled_from(
    [DOCKERFILE, COMPOSE, POD, DEVCONTAINER, REQUIREMENTS, ENVIRONMENT, *(v[0] for v in LOCKS.values())]
)


NAMES = ["Dockerfile", "compose.yaml", "k8s.yaml", "devcontainer.json", "requirements.txt", "environment.yml", *LOCKS]


@given(FRAGMENT, st.integers(0, 600), st.integers(0, 80), st.text(max_size=20), st.sampled_from(NAMES))
@settings(max_examples=300, deadline=None)
def test_any_damage_to_any_file_is_a_snapshot_or_a_named_error(text, start, length, junk, name):
    damaged = text[:start] + junk + text[start + length :]
    kind = recognise(damaged, name)
    if kind:
        with contextlib.suppress(EnvcheckError):
            assert read_file(damaged, name=name, kind=kind)


def test_no_pasted_case_is_taken_for_a_file(root):
    cases = sorted((root / "tests" / "cases").glob("*.txt"))
    assert cases
    taken = [case.name for case in cases if recognise(case.read_text(errors="replace"), case.name)]
    assert taken == []
