"""The rows of the matrix, a subject an attribute, each read when it is first asked for."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from envcheck.matrix.reader import RowSource
from envcheck.matrix.rows import (
    Build,
    Capability,
    Cause,
    Companion,
    CudaImage,
    CudaRelease,
    Cudnn,
    Distro,
    DriverBranch,
    ForwardCompat,
    FrameworkImage,
    GpuModel,
    HostCompiler,
    ImageVariable,
    Install,
    Instance,
    KnownBad,
    PackageKind,
    Policy,
    PythonSource,
    RuntimeFact,
    Symptom,
    Tool,
    Vulnerability,
    WheelPin,
)


class SubjectRows:
    """The rows of one source; a subject (for builds and such: a package) is read at its first use."""

    def __init__(self, reader: RowSource) -> None:
        self._reader = reader
        self._parts: dict[tuple[str, str], tuple[Any, ...]] = {}

    def _part(self, subject: str, part: str) -> tuple[Any, ...]:
        key = subject, part
        if key not in self._parts:
            self._parts[key] = self._reader.read(subject, part)
        return self._parts[key]

    def _whole(self, subject: str) -> tuple[Any, ...]:
        return tuple(row for part in self._reader.parts(subject) for row in self._part(subject, part))

    @cached_property
    def cuda(self) -> tuple[CudaRelease, ...]:
        """CUDA toolkit releases, oldest first."""
        return self._reader.read("cuda")

    @cached_property
    def branches(self) -> tuple[DriverBranch, ...]:
        """Driver branches, by platform."""
        return self._reader.read("branches")

    @cached_property
    def forward_compat_rows(self) -> tuple[ForwardCompat, ...]:
        """NVIDIA's table of cuda-compat packages by driver branch."""
        return self._reader.read("forward_compat")

    @cached_property
    def capabilities(self) -> tuple[Capability, ...]:
        """Compute capabilities, lowest first."""
        return self._reader.read("capabilities")

    @cached_property
    def gpus(self) -> tuple[GpuModel, ...]:
        """GPU products."""
        return self._reader.read("gpus")

    @cached_property
    def cudnn(self) -> tuple[Cudnn, ...]:
        """cuDNN wheels and support-matrix lines."""
        return self._reader.read("cudnn")

    @cached_property
    def builds(self) -> tuple[Build, ...]:
        """Every build of every package: large; ask `builds_of` for one package."""
        return self._whole("builds")

    @cached_property
    def companions(self) -> tuple[Companion, ...]:
        """Every companion row: ask `companions_of` for one package."""
        return self._whole("companions")

    @cached_property
    def pins(self) -> tuple[WheelPin, ...]:
        """CUDA libraries that frameworks' default wheels pin."""
        return self._whole("pins")

    @cached_property
    def framework_image_rows(self) -> tuple[FrameworkImage, ...]:
        """NVIDIA's framework images: pytorch, tensorflow, jax, tensorrt, tritonserver, nemo."""
        return self._whole("framework_images")

    @cached_property
    def cuda_images(self) -> tuple[CudaImage, ...]:
        """Tags of nvidia/cuda."""
        return self._reader.read("cuda_images")

    @cached_property
    def image_variables(self) -> tuple[ImageVariable, ...]:
        """Environment variables and labels of NVIDIA's images."""
        return self._reader.read("image_variables")

    @cached_property
    def instances(self) -> tuple[Instance, ...]:
        """Cloud machine types."""
        return self._reader.read("instances")

    @cached_property
    def runtime_facts(self) -> tuple[RuntimeFact, ...]:
        """Behaviours and faults of container runtimes by version."""
        return self._reader.read("runtime_facts")

    @cached_property
    def known_bad(self) -> tuple[KnownBad, ...]:
        """Combinations known to fail."""
        return self._reader.read("known_bad")

    @cached_property
    def vulnerability_rows(self) -> tuple[Vulnerability, ...]:
        """Vulnerabilities of the driver and the container runtimes."""
        return self._reader.read("vulnerabilities")

    @cached_property
    def host_compilers(self) -> tuple[HostCompiler, ...]:
        """The newest gcc and clang that each nvcc accepts."""
        return self._reader.read("host_compilers")

    @cached_property
    def symptoms(self) -> tuple[Symptom, ...]:
        """Error texts and what they prove."""
        return self._reader.read("symptoms")

    @cached_property
    def package_kinds(self) -> tuple[PackageKind, ...]:
        """What packages are to the rules: frameworks, companions, extensions, plugins."""
        return self._reader.read("packages")

    @cached_property
    def policies(self) -> tuple[Policy, ...]:
        """Sourced statements for a person, by topic."""
        return self._reader.read("policies")

    @cached_property
    def installs(self) -> tuple[Install, ...]:
        """How pip gets a framework, and which packages compile when they are installed."""
        return self._reader.read("installs")

    @cached_property
    def distros(self) -> tuple[Distro, ...]:
        """Distributions that CUDA images are made of."""
        return self._reader.read("distros")

    @cached_property
    def pythons(self) -> tuple[PythonSource, ...]:
        """Where an image's Python comes from."""
        return self._reader.read("pythons")

    @cached_property
    def tools(self) -> tuple[Tool, ...]:
        """Installers that Dockerfiles pin."""
        return self._reader.read("tools")

    @cached_property
    def causes(self) -> tuple[Cause, ...]:
        """The vocabulary of causes."""
        return self._reader.read("causes")
