"""What a verdict on an image costs against a pull of it: bytes, requests, seconds.

    python benchmarks/images.py [--size MB] [--docker-host unix:///path/to/socket]

A registry (Debian's docker-registry) is started on loopback, and an image is pushed to it that looks like NVIDIA's:
two architectures, 50 layers that don't compress, an environment of 120 variables. Then it is read as `envcheck doctor`
reads it, its layers are streamed as with --layers, and it is pulled: by an engine where one is named, and in any case
byte by byte over HTTP. Loopback is the best case of a pull; the last column says what 1 Gbit/s makes of the bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import requests

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "integration" / "registry"), str(ROOT)]

from real_registry import NGC_ENV, REPOSITORY, Image, Registry, digest, tar  # noqa: E402

from envcheck.clients.registry import Options, read_image  # noqa: E402
from envcheck.clients.registry.layers import read_layers  # noqa: E402
from envcheck.model.reference import find_reference  # noqa: E402

LAYERS = 50


def build(megabytes: int) -> Image:
    """The image, with the last layer holding a framework's metadata."""
    numbers = random.Random(1)
    piece = (megabytes << 20) // LAYERS
    layers = [tar({f"opt/blob{n}": numbers.randbytes(piece)}) for n in range(LAYERS)]
    site = "usr/local/lib/python3.10/dist-packages"
    layers.append(tar({f"{site}/torch-2.4.0a0.dist-info/METADATA": b"Name: torch\nVersion: 2.4.0a0\n"}))
    env = [*NGC_ENV, *(f"FILLER_{n}={'x' * 60}" for n in range(110))]
    image = Image(env=env, arches=("amd64", "arm64"), layers=layers, index=True)
    index = json.loads(image.top)
    image.manifests.pop(digest(image.top))
    image.top = json.dumps({**index, "manifests": index["manifests"][:2]}).encode()
    return image


def pull_bytes(base: str, tag: str) -> tuple[int, int]:
    """Every byte of one architecture over HTTP: (requests, bytes)."""
    count = total = 0
    with requests.Session() as session:
        top = session.get(f"{base}/manifests/{tag}", headers={"Accept": "application/vnd.oci.image.index.v1+json"})
        inner = json.loads(top.content)["manifests"][0]["digest"]
        manifest = session.get(
            f"{base}/manifests/{inner}", headers={"Accept": "application/vnd.oci.image.manifest.v1+json"}
        )
        total += len(top.content) + len(manifest.content)
        count += 2
        rows = json.loads(manifest.content)
        for row in [rows["config"], *rows["layers"]]:
            with session.get(f"{base}/blobs/{row['digest']}", stream=True) as answer:
                total += sum(len(part) for part in answer.iter_content(1 << 20))
            count += 1
    return count, total


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=1024, help="megabytes of layers")
    parser.add_argument("--docker-host", default="")
    options = parser.parse_args()
    rows: list[tuple[str, int, int, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        registry = Registry(Path(folder))
        registry.start()
        try:
            registry.push(build(options.size), "24.05-py3")
            name = f"{registry.host}/{REPOSITORY}:24.05-py3"
            reference = find_reference(name)
            assert reference is not None
            started = time.perf_counter()
            config = read_image(reference, Options(insecure=True))
            rows.append(("reading the config", config.requests, config.received_bytes, time.perf_counter() - started))
            command = [sys.executable, "-m", "envcheck", "doctor", name, "--insecure", "--on", "aws:p4d.24xlarge"]
            started = time.perf_counter()
            done = subprocess.run([*command, "--driver", "535.183.01"], capture_output=True, cwd=ROOT)
            rows.append(
                ("envcheck doctor IMAGE", config.requests, config.received_bytes, time.perf_counter() - started)
            )
            if done.returncode not in (0, 1):
                print(done.stderr.decode(), file=sys.stderr)
            started = time.perf_counter()
            config, _ = read_layers(reference, Options(insecure=True, seconds=600))
            size = sum(layer.size for layer in config.layers) + config.received_bytes
            rows.append(("… --layers", config.requests + len(config.layers), size, time.perf_counter() - started))
            started = time.perf_counter()
            count, size = pull_bytes(f"http://{registry.host}/v2/{REPOSITORY}", "24.05-py3")
            rows.append(("download of all bytes", count, size, time.perf_counter() - started))
            if options.docker_host:
                started = time.perf_counter()
                environment = {**os.environ, "DOCKER_HOST": options.docker_host}
                subprocess.run(["docker", "pull", "-q", name], env=environment, check=True, stdout=subprocess.DEVNULL)
                rows.append(("docker pull", count, size, time.perf_counter() - started))
                subprocess.run(["docker", "rmi", name], env=environment, stdout=subprocess.DEVNULL)
        finally:
            registry.stop()
    print("| | requests | bytes | seconds, loopback | seconds at 1 Gbit/s |")
    print("|---|---|---|---|---|")
    for what, count, size, seconds in rows:
        wire = max(seconds, size * 8 / 1e9)
        print(f"| {what} | {count} | {size:,} | {seconds:.2f} | {wire:.2f} |")


if __name__ == "__main__":
    main()
