"""The matrix: rows by subject, read when first asked for, and look-ups over them.

Versions and capabilities are strings as published ('12.1', '535.104.05', '9.0'). `find_*` and the plain look-ups
answer None for what the matrix doesn't know; `get_*` raise UnknownName with the nearest. Nothing here guesses.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Optional

from envcheck.matrix import builds, drivers, gpus, images, security
from envcheck.matrix.gpus import GpuIndex
from envcheck.matrix.rows import (
    Build,
    Capability,
    Companion,
    CudaImage,
    CudaRelease,
    DriverBranch,
    FrameworkImage,
    GpuModel,
    HostCompiler,
    Instance,
    PackageKind,
    Vulnerability,
    WheelPin,
)
from envcheck.matrix.subject_rows import SubjectRows

if TYPE_CHECKING:
    from envcheck.model.machine import Gpu


class Matrix(SubjectRows):
    """Look-ups over the rows of one source; a subject (for builds and such: a package) is read at its first use."""

    @cached_property
    def _kinds_by_name(self) -> dict[str, PackageKind]:
        return {kind.name: kind for kind in self.package_kinds}

    def package_kind(self, name: str) -> Optional[PackageKind]:
        """The role of a package (any spelling); None for one that has none."""
        return self._kinds_by_name.get(builds.normal(name))

    # ---- GPUs
    @cached_property
    def _gpu_index(self) -> GpuIndex:
        return GpuIndex(self.gpus)

    def find_gpu(self, name: str) -> Optional[GpuModel]:
        """The model that `name` means: nvidia-smi's spelling, a cut one ('NVIDIA A100-SXM...'), or '4090'.

        Where the name leaves a memory size or board form open ('A100'), the answer carries only what its variants
        share, under their common name. None rather than a wrong model: Ti, SUPER and Laptop are never confused.
        """
        return self._gpu_index.find(name)

    def find_gpu_by_pci(self, device_id: Optional[str]) -> Optional[GpuModel]:
        """The model of a PCI device id ('2684', any case, '0x' allowed); several models on one id are merged."""
        return self._gpu_index.find_by_pci(device_id)

    def get_gpu(self, name: str) -> GpuModel:
        """As find_gpu; raises UnknownName with the nearest."""
        return self._gpu_index.get(name)

    def near_gpus(self, name: str, count: int = 3) -> list[str]:
        """The names nearest to `name`."""
        return self._gpu_index.near(name, count)

    def capability(self, capability: str) -> Optional[Capability]:
        """The row of '9.0', 'sm_90', 'compute_90a' …; None for an unknown or malformed one."""
        return gpus.find_capability(self.capabilities, capability)

    def capability_of(self, gpu: Gpu) -> Optional[str]:
        """The compute capability of a GPU of a snapshot: as measured, else by name, else by PCI id."""
        if gpu.capability or gpu.vendor != "nvidia":
            return gpu.capability
        model = self.find_gpu(gpu.name) or self.find_gpu_by_pci(gpu.pci_id)
        return model.capability if model else None

    def model_of(self, gpu: Gpu) -> Optional[GpuModel]:
        """The model row of a GPU of a snapshot: by name, else by PCI id; None if its capability contradicts the row."""
        if gpu.vendor != "nvidia":
            return None
        model = self.find_gpu(gpu.name) or self.find_gpu_by_pci(gpu.pci_id)
        return None if model and gpu.capability and gpu.capability != model.capability else model

    def kernels(self, compiled: Iterable[str], capability: str) -> Optional[str]:
        """How code compiled for `compiled` ('8.0', '9.0a', '12.0+PTX') runs on `capability`: 'sass', 'ptx' or None."""
        return gpus.kernels(self.capabilities, compiled, capability)

    def compiles_for(self, capability: str, cuda: str) -> Optional[bool]:
        """Does the toolkit `cuda` (X.Y) make code for this capability? None: not known."""
        return gpus.compiles_for(self.capabilities, capability, cuda)

    # ---- CUDA and drivers
    def cuda_release(self, version: str) -> Optional[CudaRelease]:
        """The release '12.1.1'; for '12.1' its first general release."""
        return drivers.find_release(self.cuda, version)

    def newest_patch(self, minor: str) -> Optional[str]:
        """'12.1' -> '12.1.1', previews left out; None for a minor that doesn't exist."""
        return drivers.newest_patch(self.cuda, minor)

    def cuda_minors(self) -> tuple[str, ...]:
        """All X.Y, oldest first."""
        return drivers.minors(self.cuda)

    def driver_floor(self, cuda: str, os: str = "linux") -> Optional[str]:
        """The lowest driver that runs `cuda` (X.Y or X.Y.Z) natively; os is 'linux' or 'windows'. None: not known."""
        return drivers.native_floor(self.cuda, cuda, os)

    def minor_floor(self, cuda: str, os: str = "linux") -> Optional[str]:
        """The lowest driver that runs `cuda` by minor-version compatibility; None before CUDA 11 or if not known."""
        return drivers.minor_floor(self.cuda, cuda, os)

    def driver_cuda(self, driver: str, os: str = "linux") -> Optional[str]:
        """The newest CUDA X.Y that this driver ('535.104.05', or a bare branch '535') runs natively."""
        return drivers.newest_native(self.cuda, self.branches, driver, os)

    def runs_cuda(self, driver: str, cuda: str, os: str = "linux") -> Optional[str]:
        """How `driver` (or a bare branch) runs `cuda`: 'native', 'minor' or 'no'; None where floors aren't known.

        Forward compatibility by a cuda-compat package is left out: see `forward_compat`.
        """
        return drivers.runs(self.cuda, self.branches, driver, cuda, os)

    def branch(self, driver: str, platform: str = "linux") -> Optional[DriverBranch]:
        """The branch row of a driver version or bare branch; platform 'linux' or 'windows'."""
        return drivers.find_branch(self.branches, driver, platform)

    def forward_compat(self, driver: str, cuda: str) -> Optional[bool]:
        """Does cuda-compat of `cuda` (X.Y) work on this driver's branch, on a datacentre GPU? None: not in the table.

        False too where it isn't needed because the driver has this CUDA already.
        """
        return drivers.forward_compat(self.forward_compat_rows, driver, cuda)

    def host_compiler(self, cuda: str) -> Optional[HostCompiler]:
        """The newest host compilers that the nvcc of `cuda` (X.Y or X.Y.Z) accepts."""
        return next((row for row in self.host_compilers if drivers.same_minor(row.cuda, cuda)), None)

    # ---- builds and companions
    def packages(self) -> tuple[str, ...]:
        """Names of all packages that have builds or companion rows, sorted."""
        return tuple(sorted({*self._reader.parts("builds"), *self._reader.parts("companions")}))

    def builds_of(
        self, package: str, version: str = "", variant: Optional[str] = None, cuda: Optional[str] = None
    ) -> tuple[Build, ...]:
        """Builds of a package, newest release first; `version` is a whole one or its leading parts ('2.1').

        `variant` is the build's tag ('cu121', 'cpu'), `cuda` its CUDA X.Y. Empty for an unknown package.
        """
        return builds.select(self._part("builds", builds.normal(package)), version, variant, cuda)

    def build(
        self, package: str, version: str, variant: Optional[str] = None, platform: str = "linux-x86_64"
    ) -> Optional[Build]:
        """The build of one release. A local part ('2.5.1+cu124') picks the variant; without either, it is the build
        that the default index gives on `platform` ('linux-x86_64', 'linux-aarch64', 'windows'), or the only one."""
        return builds.find(self._part("builds", builds.normal(package)), version, variant, platform)

    def get_build(self, package: str, version: str, variant: Optional[str] = None) -> Build:
        """As build; raises UnknownName with the nearest package, version or variant."""
        return builds.get(self, package, version, variant)

    def variants(self, package: str, version: str = "") -> tuple[str, ...]:
        """The variants of a release (or of all), newest release first."""
        return tuple(dict.fromkeys(row.variant for row in self.builds_of(package, version)))

    def versions_of(self, package: str) -> tuple[str, ...]:
        """All releases of a package that the matrix knows, newest first."""
        return builds.releases(self._part("builds", builds.normal(package)) or self.companions_of(package))

    def newest_build(
        self,
        package: str,
        *,
        version: str = "",
        capabilities: Iterable[str] = (),
        driver: Optional[str] = None,
        python: Optional[str] = None,
        cuda: Optional[str] = None,
        os: str = "linux",
    ) -> Optional[Build]:
        """The newest CUDA build that has kernels for every capability, runs on the driver (natively or by minor-version
        compatibility), supports the Python ('3.11') and is of the CUDA X.Y; unknown properties don't count as support.
        """
        return builds.newest(self, package, version, tuple(capabilities), driver, python, cuda, os)

    def supports_python(self, build: Build, python: str) -> Optional[bool]:
        """Is there a wheel of this build for the Python ('3.11' or '3.11.9')? None: not known."""
        return builds.supports_python(build, python)

    def companions_of(self, package: str, version: str = "") -> tuple[Companion, ...]:
        """Rows of a companion (torchvision, xformers …), newest first; `version` is whole or leading parts."""
        return builds.select_companions(self._part("companions", builds.normal(package)), version)

    def companion_for(self, package: str, framework_version: str, framework: str = "torch") -> Optional[Companion]:
        """The release of a companion that belongs to this framework release: the newest that its metadata binds to it,
        else the one that came out with it and whose range admits it; None where none is."""
        build = self.build(framework, framework_version) or next(
            iter(self.builds_of(framework, framework_version)), None
        )
        released = build.released if build else None
        return builds.companion_for(self.companions_of(package), framework, framework_version, released)

    def pins_of(self, framework: str, version: str, machine: str = "x86_64") -> tuple[WheelPin, ...]:
        """CUDA libraries and triton that the default wheel of a release pins on a machine ('x86_64', 'aarch64')."""
        release = builds.public(version)
        return tuple(
            pin
            for pin in self._part("pins", builds.normal(framework))
            if pin.version == release and pin.machine == machine
        )

    # ---- images and machines
    def framework_images(self, framework: str) -> tuple[FrameworkImage, ...]:
        """Images for a framework ('torch', 'tensorflow', 'jax') or repository ('pytorch', 'nemo'), newest first."""
        return images.for_framework(self.framework_image_rows, framework)

    def image(self, reference: str) -> Optional[FrameworkImage]:
        """The row of 'nvcr.io/nvidia/pytorch:23.07-py3' (registry or '-py3' may be left out)."""
        return images.find(self.framework_image_rows, reference)

    def cuda_image(self, tag: str) -> Optional[CudaImage]:
        """The row of a tag of nvidia/cuda; a whole reference does too."""
        return images.find_cuda(self.cuda_images, tag)

    def instance(self, name: str) -> Optional[Instance]:
        """The cloud machine 'aws:p4d.24xlarge'; None for an unknown one."""
        return images.find_instance(self.instances, name)

    def get_instance(self, name: str) -> Instance:
        """As instance; raises UnknownName with the nearest."""
        return images.get_instance(self.instances, name)

    def vulnerabilities(self, component: str) -> tuple[Vulnerability, ...]:
        """Vulnerabilities of a component: 'nvidia-container-toolkit', 'gpu-operator', 'runc', 'nvidia-driver-linux'."""
        return tuple(row for row in self.vulnerability_rows if row.component == component)

    def open_vulnerabilities(self, component: str, version: str) -> tuple[Vulnerability, ...]:
        """Those that `version` of the component still has; of a driver, by its branch. See security.open_in."""
        return security.open_in(self.vulnerability_rows, component, version)

    def meaning(self, cause: str) -> str:
        """What a cause key means; '' for an unknown one."""
        return next((row.meaning for row in self.causes if row.key == cause), "")
