"""The rows of the compatibility matrix: one frozen Struct a kind of row, decoded strictly from matrices/*.toml.

Every row carries `source` (where the fact was read) and `checked` (ISO date of the last check). A field left out is
unknown, never false. Versions are strings as published; CUDA is 'X.Y' unless a patch level matters.
"""

from __future__ import annotations

from typing import Literal, Optional

import msgspec


class Row(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """What every row has."""

    source: str
    checked: str
    note: str = ""


class CudaRelease(Row, frozen=True):
    """A CUDA toolkit release and the drivers that run it."""

    version: str  # '12.1.1'
    release: str = ""  # '12.1 Update 1'
    linux_driver: Optional[str] = None  # driver of full (native) support
    windows_driver: Optional[str] = None
    runfile_driver: Optional[str] = None
    minor_linux: Optional[str] = None  # lowest driver by minor-version compatibility
    minor_windows: Optional[str] = None
    minor_linux_below: Optional[str] = None  # the branch from which native support is certain
    released: Optional[str] = None
    cudart: Optional[str] = None


class DriverBranch(Row, frozen=True):
    """A driver branch on one platform."""

    branch: int
    platform: Literal["linux", "windows"]
    kind: str = ""  # LTSB, PB, NFB
    released: Optional[str] = None
    eol: Optional[str] = None
    latest: Optional[str] = None
    latest_date: Optional[str] = None
    max_cuda: Optional[str] = None  # newest CUDA that it runs natively, X.Y
    dropped: tuple[str, ...] = ()  # GPU architectures that later branches drop
    open_modules: str = ""


class ForwardCompat(Row, frozen=True):
    """Does the cuda-compat package of this CUDA work on this driver branch?"""

    branch: int
    cuda: str  # X.Y of the compat package
    works: bool


class Capability(Row, frozen=True):
    """A compute capability: who makes code for it, and what its cores can do."""

    capability: str  # '9.0'
    architecture: str  # 'Hopper'
    first_cuda: Optional[str] = None  # first toolkit that compiles for it
    last_cuda: Optional[str] = None
    last_branch: Optional[int] = None  # last driver branch
    features: tuple[str, ...] = ()  # tensor, int8, bf16, tf32, fp64, fp8, fp4
    lacks: tuple[str, ...] = ()  # features known to be absent
    datacentre: tuple[str, ...] = ()
    consumer: tuple[str, ...] = ()
    embedded: tuple[str, ...] = ()
    integrated: bool = False  # on boards like Jetson: discrete GPUs' machine code does not run here, nor the reverse
    mig: str = ""
    nvlink: str = ""
    fp64_rate: str = ""
    open_modules: Optional[Literal["required", "unsupported"]] = None  # the driver's open kernel modules; None: both do


class GpuModel(Row, frozen=True):
    """A GPU product as nvidia-smi or pci.ids names it."""

    name: str
    architecture: str
    capability: str
    aliases: tuple[str, ...] = ()  # other spellings people use
    pci_ids: tuple[str, ...] = ()  # device ids, upper case
    memory_gb: Optional[float] = None
    segment: Optional[Literal["datacentre", "workstation", "consumer", "embedded"]] = None
    mig: Optional[bool] = None
    mig_max: Optional[int] = None
    mig_min_driver: Optional[str] = None
    nvlink: str = ""
    nvswitch: Optional[bool] = None
    year: Optional[int] = None
    min_branch: Optional[int] = None
    first_driver: Optional[str] = None


class Cudnn(Row, frozen=True):
    """A cuDNN release: wheel or support-matrix line."""

    version: str
    record: Literal["wheel", "support"]
    cuda: str = ""
    package: str = ""
    released: Optional[str] = None
    linux_driver: Optional[str] = None
    windows_driver: Optional[str] = None
    min_capability: Optional[str] = None
    max_capability: Optional[str] = None
    capability_note: str = ""
    soname: str = ""
    sub_libraries: tuple[str, ...] = ()
    wheel_tag: str = ""
    yanked: bool = False


class Build(Row, frozen=True):
    """One build of one release of a package that uses the GPU: what it was compiled for and what it needs.

    (package, version, variant) is the key. `variant` is 'cu121', 'cpu', 'rocm5.7', or '' where a release has one build.
    """

    package: str  # PEP 503 name: torch, tensorflow, jaxlib, onnxruntime-gpu …
    version: str
    variant: str = ""
    accelerator: Optional[Literal["cuda", "cpu", "rocm"]] = None
    default_on: tuple[str, ...] = ()  # where the default index gives this build: linux-x86_64, linux-aarch64, windows …
    released: Optional[str] = None
    requires_python: str = ""
    python_min: Optional[str] = None
    python_max: Optional[str] = None
    free_threaded: Optional[str] = None
    cuda: Optional[str] = None
    cuda_tested: Optional[str] = None  # by the project's own table, where the build isn't bound to one release
    cudnn: Optional[str] = None
    nccl: Optional[str] = None
    triton: Optional[str] = None
    capabilities: Optional[tuple[str, ...]] = None  # '7.0', '9.0a', PTX as '12.0+PTX'; None: unknown
    capabilities_from: str = ""
    min_capability: Optional[str] = None  # lowest that it says it runs on, where the compiled list isn't known
    driver_min: str = ""
    wheel_tag: str = ""
    glibc: Optional[str] = None
    cxx11_abi: Optional[bool] = None
    numpy: str = ""  # specifier that the metadata asks for
    numpy2: Optional[bool] = None  # runs beside NumPy 2
    requires: tuple[str, ...] = ()  # pins of CUDA packages and plugins that matter
    platforms: tuple[str, ...] = ()
    yanked: bool = False
    witness: str = ""  # the wheel that proved the row, with date


class Companion(Row, frozen=True):
    """A package that must fit a framework's release (torchvision to torch, …)."""

    package: str
    version: str
    framework: str = "torch"
    # exact, range, any, none; prebuilt: a wheel built for it; by-framework: the framework's metadata asks for it
    relation: str = ""
    requirement: str = ""  # specifier on the framework, '==2.1.2'
    framework_version: Optional[str] = None
    also_requires: str = ""
    requires_python: str = ""
    python_tags: tuple[str, ...] = ()
    released: Optional[str] = None
    yanked: bool = False


class WheelPin(Row, frozen=True):
    """A CUDA library (or triton) that a framework's default wheel pins."""

    framework: str
    version: str
    machine: str
    package: str
    requirement: str
    pinned: Optional[str] = None
    via: str = ""
    marker: str = ""


class FrameworkImage(Row, frozen=True):
    """An image of NVIDIA's catalogue that carries a framework (pytorch, tensorflow, jax, tritonserver, nemo …)."""

    reference: str  # 'nvcr.io/nvidia/pytorch:23.07-py3'
    framework: str = ""  # package name of what it is for: torch, tensorflow, jax …; '' where it is another product
    framework_version: Optional[str] = None
    cuda: Optional[str] = None
    cudnn: Optional[str] = None
    nccl: Optional[str] = None
    tensorrt: Optional[str] = None
    python: Optional[str] = None
    ubuntu: Optional[str] = None
    driver_min: Optional[str] = None
    driver_branches: tuple[str, ...] = ()  # datacentre branches that also run it: '450.51', '470.57'
    compat_driver: Optional[str] = None  # CUDA_DRIVER_VERSION: the image's own compat libcuda
    capabilities: Optional[tuple[str, ...]] = None
    base: Optional[str] = None
    released: Optional[str] = None
    packages: dict[str, str] = {}  # other versions inside: {'vllm': '0.17.1'}
    evidence: str = ""  # direct, built-on, sibling …


class CudaImage(Row, frozen=True):
    """A tag of nvidia/cuda (the same at nvcr.io and Docker Hub)."""

    tag: str
    cuda: str
    flavour: Literal["base", "runtime", "devel"]
    distro: str
    cudnn: Optional[str] = None  # '' never: None is 'no cuDNN or not told', see has_cudnn
    has_cudnn: bool = False
    nccl: Optional[str] = None
    arches: tuple[str, ...] = ()
    require: str = ""
    status: str = ""
    status_as_of: str = ""


class ImageVariable(Row, frozen=True):
    """An environment variable or label of an image family and what it means."""

    family: str
    kind: str
    name: str
    example: str = ""
    where: str = ""
    meaning: str = ""


class Instance(Row, frozen=True):
    """A cloud machine type."""

    provider: str  # 'aws'
    name: str  # 'p4d.24xlarge'
    gpu: str  # the provider's label
    model: str = ""  # GpuModel.name where it is certain
    count: Optional[float] = None
    memory_gb_each: Optional[float] = None
    vcpu: Optional[int] = None
    ram_gb: Optional[float] = None
    network_gbps: Optional[float] = None
    interconnect: str = ""
    image_driver: str = ""


class RuntimeFact(Row, frozen=True):
    """A behaviour or fault of a container runtime by version."""

    component: str
    kind: str
    affected: str = ""
    symptom: str = ""
    condition: str = ""
    fix: str = ""
    fixed_in: str = ""


class KnownBad(Row, frozen=True):
    """A combination known to fail; `packages` and friends make it decidable, all conditions must hold.

    Each specifier is PEP 440 over the installed release (local part ignored); an empty list of conditions means that
    the row is for a person to read, and no rule fires on it.
    """

    id: str
    cause: str = ""  # key of the cause vocabulary; '' where none fits
    severity: Literal["error", "warning", "note"] = "error"
    packages: dict[str, str] = {}  # {'torch': '<2.3', 'numpy': '>=2'}
    python: str = ""
    driver: str = ""
    cuda: str = ""  # of the framework build
    capability: str = ""  # specifier over 'major.minor'
    os: str = ""
    glibc: str = ""
    components: str = ""
    condition: str = ""
    symptom: str = ""
    fix: str = ""


class Vulnerability(Row, frozen=True):
    """A vulnerability by component: last bad and first good versions, by branch where branches are fixed apart."""

    id: str  # CVE or bulletin
    component: str  # nvidia-container-toolkit, runc, nvidia-driver-linux
    branch: str = ""
    last_bad: Optional[str] = None
    first_good: Optional[str] = None
    unless: str = ""  # condition under which it doesn't apply: 'cdi'
    severity: str = ""
    published: Optional[str] = None


class HostCompiler(Row, frozen=True):
    """The newest host compiler that an nvcc accepts."""

    cuda: str  # X.Y
    gcc_max: Optional[int] = None
    clang_max: Optional[int] = None


class Symptom(Row, frozen=True):
    """An error text that names a cause.

    `pattern` is a Python regular expression searched in one line (or, with `span`, in a few joined lines); its named
    groups become the event's values. `proves` is a cause key that the text alone proves; `suggests` are keys that it
    makes likely, to be settled by the facts named in `settle`. `harmless` says that the line is no fault by itself.
    """

    id: str
    pattern: str
    proves: str = ""
    suggests: tuple[str, ...] = ()
    settle: tuple[str, ...] = ()
    harmless: bool = False
    rank: int = 50  # the lower, the nearer to the root
    message: str = ""  # what it means, with {group} fields
    fix: tuple[str, ...] = ()
    literal: str = ""  # plain pieces, joined by '|', one of which every match holds: a quick test; case doesn't count
    span: int = 1


class Policy(Row, frozen=True):
    """A sourced statement that no typed row holds: what a vendor promises, drops or warns of, for a person to read."""

    topic: str  # package, 'cudnn', 'driver', 'cuda images', 'aws' …
    text: str


class PackageKind(Row, frozen=True):
    """What a package is to the rules: its role, what it belongs to, and how its GPU build is installed.

    `causes` are the keys of the cause vocabulary that only this package (or its kind) can have.
    """

    name: str  # PEP 503
    role: Literal["framework", "companion", "extension", "plugin", "library", "cpu-twin", "obsolete"]
    of: str = ""  # the framework that it belongs to
    brings_cuda: Optional[bool] = None  # its wheel holds or pulls in the CUDA libraries; False: it needs the system's
    index_url: str = ""  # the public index of its variants, with {variant}
    gpu_requirement: str = ""  # what to install for a GPU, with {version}
    replaced_by: str = ""
    causes: tuple[str, ...] = ()


class Cause(Row, frozen=True):
    """A key of the cause vocabulary."""

    key: str
    meaning: str


class Install(Row, frozen=True):
    """How pip gets a package: requirement, index, who brings the CUDA libraries. Text fields are templates."""

    package: str
    libraries: Literal["wheel", "system", "compile"]  # compile: built from source at install, needs nvcc
    requirement: str  # 'torch=={version}+{variant}'
    versions: str = ""  # specifier of the releases that the row is for
    index: str = ""  # '' is the default index
    requires: bool = False  # name the pins of the build row too
    without: tuple[str, ...] = ()  # … but not these
    companions: tuple[str, ...] = ()
    bounds: tuple[str, ...] = ()
    module: str = ""  # what Python imports
    keep: tuple[str, ...] = ()  # what pip must not replace in NVIDIA's image of this framework
    conda: str = ""
    conda_note: str = ""
    caution: str = ""


class Distro(Row, frozen=True):
    """A distribution that CUDA images are made of."""

    name: str  # 'ubuntu22.04', as in the tag
    glibc: str
    supported_until: str  # YYYY-MM, standard support


class PythonSource(Row, frozen=True):
    """Where an image's Python comes from: the distribution's package, or a build that uv fetches and checks."""

    python: str  # 'X.Y'
    origin: Literal["apt", "uv"]
    distro: str = ""  # apt: which
    packages: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    executable: str = ""
    version: str = ""  # uv: which patch release


class Tool(Row, frozen=True):
    """An installer that Dockerfiles pin."""

    name: str
    version: str
    python: str  # specifier of the interpreters that it runs on
    hashes: tuple[str, ...] = ()
