"""The subjects of the matrix: which files hold them and which kind of row they are made of."""

from __future__ import annotations

import msgspec

from envcheck.matrix import rows


class Subject(msgspec.Struct, frozen=True):
    """A kind of row. `folder` subjects are one file a package (or repository): matrices/<name>/<part>.toml.

    `key` are the fields that identify a row; `table` is the TOML array that holds it.
    """

    name: str
    table: str
    row: type[rows.Row]
    key: tuple[str, ...]
    folder: bool = False


SUBJECTS: dict[str, Subject] = {
    subject.name: subject
    for subject in (
        Subject("cuda", "cuda", rows.CudaRelease, ("version",)),
        Subject("branches", "branch", rows.DriverBranch, ("branch", "platform")),
        Subject("forward_compat", "pair", rows.ForwardCompat, ("branch", "cuda")),
        Subject("capabilities", "capability", rows.Capability, ("capability",)),
        Subject("gpus", "gpu", rows.GpuModel, ("name",)),
        Subject("cudnn", "cudnn", rows.Cudnn, ("record", "version", "cuda", "package")),
        Subject("builds", "build", rows.Build, ("package", "version", "variant"), folder=True),
        Subject(
            "companions",
            "companion",
            rows.Companion,
            ("package", "version", "relation", "requirement", "framework_version"),
            folder=True,
        ),
        Subject("pins", "pin", rows.WheelPin, ("framework", "version", "machine", "package"), folder=True),
        Subject("framework_images", "image", rows.FrameworkImage, ("reference",), folder=True),
        Subject("cuda_images", "image", rows.CudaImage, ("tag",)),
        Subject("image_variables", "variable", rows.ImageVariable, ("family", "kind", "name", "example")),
        Subject("instances", "instance", rows.Instance, ("provider", "name")),
        Subject("runtime_facts", "fact", rows.RuntimeFact, ("component", "symptom", "affected")),
        Subject("known_bad", "combination", rows.KnownBad, ("id",)),
        Subject("vulnerabilities", "vulnerability", rows.Vulnerability, ("id", "component", "branch")),
        Subject("host_compilers", "compiler", rows.HostCompiler, ("cuda",)),
        Subject("symptoms", "symptom", rows.Symptom, ("id",)),
        Subject("policies", "policy", rows.Policy, ("topic", "text")),
        Subject("packages", "package", rows.PackageKind, ("name",)),
        Subject("causes", "cause", rows.Cause, ("key",)),
        Subject("installs", "install", rows.Install, ("package", "versions")),
        Subject("distros", "distro", rows.Distro, ("name",)),
        Subject("pythons", "python", rows.PythonSource, ("python", "origin", "distro")),
        Subject("tools", "tool", rows.Tool, ("name", "version")),
    )
}
