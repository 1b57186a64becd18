"""Runs inside a built image (any Python from 3.6) and prints one JSON line of what is there: no argument, no write."""

import json
import sys

MARK = "envcheck-verify:"


def find_version(name):
    """The installed version of a distribution; None where it isn't there."""
    try:
        from importlib.metadata import PackageNotFoundError, version
    except ImportError:
        import pkg_resources

        try:
            return pkg_resources.get_distribution(name).version
        except pkg_resources.DistributionNotFound:
            return None
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def look_torch(found):
    """torch's build, and a small product on each GPU that it sees."""
    import torch

    found["imported"] = torch.__version__
    found["cuda"] = getattr(torch.version, "cuda", None)
    cuda = getattr(torch, "cuda", None)
    if cuda is not None and cuda.is_available():
        for index in range(cuda.device_count()):
            a = torch.ones(64, 64, device="cuda:{}".format(index))
            found["gpus"].append([cuda.get_device_name(index), float((a @ a).sum().item()) == 64.0**3])


def look_tensorflow(found):
    """TensorFlow's build, and a small product on its first GPU."""
    import tensorflow as tf

    found["imported"] = tf.__version__
    info = tf.sysconfig.get_build_info()
    found["cuda"] = info.get("cuda_version")
    for device in tf.config.list_physical_devices("GPU"):
        with tf.device("/GPU:0"):
            a = tf.ones((64, 64))
            found["gpus"].append([device.name, float(tf.reduce_sum(a @ a)) == 64.0**3])


def look_jax(found):
    """JAX's version, and a small product on its first GPU."""
    import jax
    import jax.numpy as jnp

    found["imported"] = jax.__version__
    for device in jax.devices():
        if device.platform in ("gpu", "cuda"):
            a = jax.device_put(jnp.ones((64, 64)), device)
            found["gpus"].append([device.device_kind, float((a @ a).sum()) == 64.0**3])


LOOK = {"torch": look_torch, "tensorflow": look_tensorflow, "jax": look_jax}


def main(framework, names):
    """Look at everything and print the line."""
    found = {
        "python": "{}.{}.{}".format(*sys.version_info[:3]),
        "packages": {name: find_version(name) for name in names},
        "imported": None,
        "cuda": None,
        "gpus": [],
        "fault": None,
    }
    try:
        LOOK[framework](found)
    except Exception as fault:
        found["fault"] = "{}: {}".format(type(fault).__name__, fault)
    print(MARK + json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
