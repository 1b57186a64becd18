"""Which question of `envcheck matrix show` is answered by which function."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from envcheck.errors import UnknownName, UsageError
from envcheck.matrix import show_drivers, show_faults, show_gpus, show_images, show_packages
from envcheck.matrix.answer import Answer
from envcheck.matrix.builds import normal
from envcheck.matrix.matrix import Matrix

# topic -> (function, fewest and most words after it, what they are)
TOPICS: dict[str, tuple[Callable[..., Answer], int, int, str]] = {
    "gpu": (show_gpus.show_gpu, 1, 1, "NAME"),
    "gpus": (show_gpus.show_gpus, 0, 0, ""),
    "driver": (show_drivers.show_driver, 1, 1, "VERSION or BRANCH"),
    "cuda": (show_drivers.show_cuda, 1, 1, "X.Y or X.Y.Z"),
    "cudnn": (show_drivers.show_cudnn, 0, 1, "[VERSION]"),
    "ngc": (show_images.show_ngc, 0, 2, "[REPOSITORY [TAG]]"),
    "instances": (show_gpus.show_instances, 0, 1, "[PROVIDER or PROVIDER:MACHINE]"),
    "packages": (show_packages.show_packages, 0, 0, ""),
    "known-bad": (show_faults.show_known_bad, 0, 1, "[COMPONENT or ID]"),
    "vulnerabilities": (show_faults.show_vulnerabilities, 0, 1, "[COMPONENT]"),
    "runtime": (show_faults.show_runtime, 0, 1, "[COMPONENT]"),
    "causes": (show_faults.show_causes, 0, 0, ""),
    "policies": (show_faults.show_policies, 0, 1, "[TOPIC]"),
}


def answer(matrix: Matrix, topic: str, words: Sequence[str]) -> Answer:
    """The answer to 'topic words'; any package's name is a topic. Raises UnknownName or UsageError."""
    topic = topic.lower()
    if topic not in TOPICS:
        if normal(topic) not in matrix.packages():
            raise UnknownName("topic", topic, [*TOPICS, *matrix.packages()], f"{', '.join(TOPICS)}, or a package")
        if len(words) > 1:
            raise UsageError(f"{topic} takes one version", f"For example: envcheck matrix show {topic} {words[0]}")
        return show_packages.show_package(matrix, topic, *words)
    function, fewest, most, usage = TOPICS[topic]
    if topic == "gpu":
        words = [" ".join(words)] if words else []  # a name without quotes
    if not fewest <= len(words) <= most:
        raise UsageError(
            f"'{topic}' needs {usage or 'nothing more'}", f"Type: envcheck matrix show {topic} {usage}".strip()
        )
    return function(matrix, *words)
