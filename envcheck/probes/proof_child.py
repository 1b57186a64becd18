"""The child of a proof: run by the environment's interpreter as text, never imported by envcheck.

It prints one JSON object a line: {"begin": …} before and {"check": …} after each computation, so that a crash tells
where it was. Frameworks are imported by name, and the names come as arguments.
"""

# ruff: noqa: D103, T201
# mypy: ignore-errors
# (its types are the frameworks', which are not here)
import importlib
import json
import sys
import time

KERNEL = """
import triton
import triton.language as tl

@triton.jit
def add_one(source, target, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + at, tl.load(source + at, mask=at < n) + 1.0, mask=at < n)
"""


class Skipped(Exception):
    """The GPU or the framework doesn't have it."""


class Wrong(Exception):
    """The result doesn't agree with the CPU's."""


def say(**what):
    print(json.dumps(what), flush=True)


def check(framework, name, gpu, work):
    say(begin=[framework, name, gpu])
    started, state, text = time.time(), "ok", ""
    try:
        text = str(work() or "")
    except Skipped as reason:
        state, text = "skipped", str(reason)
    except Wrong as reason:
        state, text = "wrong", str(reason)
    except BaseException as failure:
        state, text = "failed", f"{type(failure).__name__}: {failure}"
    say(
        check={
            "framework": framework,
            "name": name,
            "gpu": gpu,
            "state": state,
            "text": text[:4000],
            "seconds": round(time.time() - started, 3),
        }
    )
    return state == "ok"


def agree(found, wanted, tolerance):
    error = float((found.double().cpu() - wanted).abs().max() / (wanted.abs().max() + 1e-9))
    if not error <= tolerance:
        raise Wrong(f"relative error {error:.3g} is more than {tolerance:.3g}")


def prove_torch(torch):
    if not torch.cuda.is_available():
        check("torch", "cuda", None, lambda: torch.zeros(1, device="cuda") and "")
        return
    count = torch.cuda.device_count()
    for gpu in range(count):
        prove_torch_gpu(torch, gpu, f"cuda:{gpu}")
    if count > 1:
        check("torch", "NCCL all-reduce", 0, lambda: all_reduce(torch))


def prove_torch_gpu(torch, gpu, device):
    generator = torch.Generator().manual_seed(7)
    left = torch.randn(128, 96, generator=generator, dtype=torch.float64)
    right = torch.randn(96, 64, generator=generator, dtype=torch.float64)

    def matmul(kind, tolerance, tf32=False):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        a, b = left.to(kind), right.to(kind)
        agree(a.to(device) @ b.to(device), a.double() @ b.double(), tolerance)
        torch.backends.cuda.matmul.allow_tf32 = False

    def convolve():
        image = torch.randn(2, 8, 32, 32, generator=generator)
        weight = torch.randn(16, 8, 3, 3, generator=generator)
        if not torch.backends.cudnn.is_available():
            raise Skipped("this build has no cuDNN")
        found = torch.nn.functional.conv2d(image.to(device), weight.to(device))
        agree(found, torch.nn.functional.conv2d(image.double(), weight.double()), 5e-3)
        return f"cuDNN {torch.backends.cudnn.version()}"

    def fp8():
        if torch.cuda.get_device_capability(gpu) < (8, 9) or not hasattr(torch, "float8_e4m3fn"):
            raise Skipped("no fp8 on this GPU or in this release")
        a = torch.randn(32, 32, generator=generator).clamp(-4, 4).to(torch.float8_e4m3fn)
        b = torch.randn(32, 32, generator=generator).clamp(-4, 4).to(torch.float8_e4m3fn)
        one = torch.ones((), device=device)
        found = torch._scaled_mm(a.to(device), b.t().contiguous().t().to(device), one, one, out_dtype=torch.bfloat16)
        found = found[0] if isinstance(found, tuple) else found
        agree(found, a.double() @ b.double(), 3e-2)

    def compiled():
        try:
            importlib.import_module("triton")
        except ImportError:
            raise Skipped("no Triton") from None
        import linecache

        name = "<proof>"
        linecache.cache[name] = (len(KERNEL), None, KERNEL.splitlines(True), name)
        space = {"__name__": "proof"}
        exec(compile(KERNEL, name, "exec"), space)  # noqa: S102
        source = torch.arange(1000, dtype=torch.float32, device=device)
        target = torch.empty_like(source)
        with torch.cuda.device(gpu):
            space["add_one"][(4,)](source, target, 1000, BLOCK=256)
        agree(target, torch.arange(1000).double() + 1, 0)

    if not check("torch", "allocate", gpu, lambda: torch.zeros(1024, device=device).sum().item() and ""):
        return
    check("torch", "matmul fp32", gpu, lambda: matmul(torch.float32, 1e-4))
    check("torch", "matmul tf32", gpu, lambda: matmul(torch.float32, 5e-3, True))
    check("torch", "matmul fp16", gpu, lambda: matmul(torch.float16, 5e-3))
    check("torch", "matmul bf16", gpu, lambda: matmul(torch.bfloat16, 3e-2))
    check("torch", "matmul fp8", gpu, fp8)
    check("torch", "convolution", gpu, convolve)
    check("torch", "Triton kernel", gpu, compiled)


def all_reduce(torch):
    parts = [torch.full((1024,), float(gpu + 1), device=f"cuda:{gpu}") for gpu in range(2)]
    torch.cuda.nccl.all_reduce(parts)
    for part in parts:
        agree(part, torch.full((1024,), 3.0).double(), 0)


def prove_tensorflow(tf):
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        check("tensorflow", "cuda", None, lambda: no_gpu("tf.config.list_physical_devices('GPU') is empty"))
    for gpu in range(len(gpus)):

        def multiply(gpu=gpu):
            a = tf.random.stateless_normal((64, 64), (1, 2))
            with tf.device("/CPU:0"):
                wanted = tf.matmul(a, a)
            with tf.device(f"/GPU:{gpu}"):
                found = tf.matmul(a, a)
            near(found.numpy(), wanted.numpy())

        def convolve(gpu=gpu):
            image, weight = tf.random.stateless_normal((1, 16, 16, 4), (3, 4)), tf.ones((3, 3, 4, 4))
            with tf.device("/CPU:0"):
                wanted = tf.nn.conv2d(image, weight, 1, "SAME")
            with tf.device(f"/GPU:{gpu}"):
                found = tf.nn.conv2d(image, weight, 1, "SAME")
            near(found.numpy(), wanted.numpy())

        check("tensorflow", "matmul fp32", gpu, multiply)
        check("tensorflow", "convolution", gpu, convolve)


def prove_jax(jax):
    try:
        gpus = jax.devices("gpu")
    except RuntimeError as failure:
        check("jax", "cuda", None, lambda failure=failure: no_gpu(str(failure)))
        return
    for number, device in enumerate(gpus):

        def multiply(device=device):
            a = jax.random.normal(jax.random.PRNGKey(0), (64, 64))
            with jax.default_matmul_precision("float32"):
                found = jax.jit(lambda x: x @ x)(jax.device_put(a, device))
                wanted = jax.device_put(a, jax.devices("cpu")[0])
                near(found, wanted @ wanted)

        check("jax", "matmul fp32", number, multiply)


def no_gpu(text):
    raise RuntimeError(text)


def near(found, wanted):
    error = float(abs(found - wanted).max() / (abs(wanted).max() + 1e-9))
    if not error <= 1e-2:
        raise Wrong(f"relative error {error:.3g}")


def loaded():
    try:
        with open("/proc/self/maps") as stream:
            paths = {line.split(None, 5)[5].strip() for line in stream if "/" in line}
    except OSError:
        return []
    return sorted(path for path in paths if ".so" in path)


PROVERS = {"torch": prove_torch, "tensorflow": prove_tensorflow, "jax": prove_jax}


def main(names):
    for name in names:
        module = []
        if check(name, "import", None, lambda name=name, module=module: module.append(importlib.import_module(name))):
            try:
                PROVERS[name](module[0])
            except BaseException as failure:
                text = f"{type(failure).__name__}: {failure}"
                say(check={"framework": name, "name": "devices", "gpu": None, "state": "failed", "text": text[:4000]})
    say(loaded=loaded())


if __name__ == "__main__":
    main(sys.argv[1:])
