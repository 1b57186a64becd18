"""Error texts of causes that no public case shows: the text, or the text with a few facts, names the cause first."""

from __future__ import annotations

import pytest

from envcheck.pipeline import judge
from envcheck.readers.detect import read_report

TEXTS = [
    (
        "nouveau-loaded",
        (
            "[   12.3] NVRM: The NVIDIA probe routine was not called for 1 device(s).\n"
            "NVRM: This can occur when a driver such as:\n"
            "NVRM: nouveau, rivafb, nvidiafb or rivatv\n"
            "NVRM: was loaded and obtained ownership of the NVIDIA device(s)."
        ),
    ),
    (
        "gpu-dropped-by-driver",
        (
            "NVRM: The NVIDIA Tesla K80 GPU installed in this system is\n"
            "NVRM: supported through the NVIDIA 470.xx Legacy drivers. Please\n"
            "NVRM: visit http://www.nvidia.com/object/unix.html for more\n"
            "NVRM: information.  The 535.129.03 NVIDIA driver will ignore\n"
            "NVRM: this GPU.  Continuing probe..."
        ),
    ),
    (
        "rocm-build-on-nvidia",
        (
            "$ nvidia-smi -L\n"
            "GPU 0: NVIDIA GeForce RTX 3090 (UUID: GPU-1)\n"
            '$ python -c "import torch; print(torch.__version__)"\n'
            "2.3.0+rocm6.0\n"
            "RuntimeError: No HIP GPUs are available"
        ),
    ),
    (
        "cuda-build-on-amd",
        (
            "$ lspci | grep VGA\n"
            "03:00.0 VGA compatible controller: Advanced Micro Devices, Inc. [AMD/ATI] Navi 31 [Radeon RX 7900 XT/7900 XTX]\n"  # noqa: E501
            ">>> torch.__version__\n"
            "'2.1.0+cu121'\n"
            ">>> torch.cuda.is_available()\n"
            "False"
        ),
    ),
    (
        "gpu-not-passed-to-container",
        (
            '$ docker run --rm -it pytorch/pytorch:2.1.0-cuda12.1-cudnn8-runtime python -c "import torch; torch.zeros(1).cuda()"\n'  # noqa: E501
            "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver from http://www.nvidia.com/Download/index.aspx"  # noqa: E501
        ),
    ),
    (
        "gpu-not-passed-to-container",
        (
            "WARNING: The NVIDIA Driver was not detected.  GPU functionality will not be available.\n"
            "   Use the NVIDIA Container Toolkit to start this container with GPU support; see\n"
            "   https://docs.nvidia.com/datacenter/cloud-native/ ."
        ),
    ),
    (
        "duplicate-torch-install",
        (
            "[pip3] torch==2.1.0\n"
            "[pip3] torch==2.0.1+cu118\n"
            "[conda] pytorch 1.13.1 py3.10_cuda11.7_cudnn8.5.0_0 pytorch\n"
            "[conda] torch 2.1.0 pypi_0 pypi"
        ),
    ),
    (
        "mixed-cuda-major-packages",
        (
            "$ pip list | grep nvidia\n"
            "nvidia-cublas-cu11        11.10.3.66\n"
            "nvidia-cublas-cu12        12.1.3.1\n"
            "nvidia-cudnn-cu11         8.5.0.96\n"
            "nvidia-cudnn-cu12         8.9.2.26\n"
            "torch                     2.1.0"
        ),
    ),
    (
        "python-headers-missing",
        (
            "In file included from csrc/foo.cpp:1:\n"
            "fatal error: Python.h: No such file or directory\n"
            "    1 | #include <Python.h>\n"
            "compilation terminated."
        ),
    ),
    (
        "cuda-toolkit-missing",
        ("OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root."),
    ),
    (
        "tf-gpu-package-removed",
        ('The "tensorflow-gpu" package has been removed!\n\nPlease install "tensorflow" instead.'),
    ),
    (
        "container-runtime-misconfigured",
        (
            'docker: Error response from daemon: could not select device driver "cdi" with capabilities: [[gpu]].\n'
            "Error response from daemon: failed to create task: CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=all"  # noqa: E501
        ),
    ),
    (
        "container-runtime-misconfigured",
        (
            "$ docker run --runtime=nvidia --rm x nvidia-smi\n"
            "docker: Error response from daemon: unknown or invalid runtime name: nvidia."
        ),
    ),
    (
        "container-toolkit-vulnerable",
        ("$ nvidia-ctk --version\nNVIDIA Container Toolkit CLI version 1.14.3\ncommit: 1"),
    ),
    (
        "mig-misconfigured",
        ("Warning: MIG mode is in pending enable state for GPU 00000000:07:00.0:In use by another client"),
    ),
    (
        "wsl-libcuda-shadowed",
        (
            "# WSL2 Ubuntu 22.04\n"
            "$ ldconfig -p | grep libcuda.so\n"
            "\tlibcuda.so.1 (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libcuda.so.1\n"
            "\tlibcuda.so.1 (libc6,x86-64) => /usr/lib/wsl/lib/libcuda.so.1\n"
            "$ nvidia-smi\n"
            "Failed to initialize NVML: GPU access blocked by the operating system"
        ),
    ),
    (
        "jetson-generic-wheel",
        (
            "$ cat /etc/nv_tegra_release\n"
            "# R35 (release), REVISION: 4.1, GCID: 33958178, BOARD: t186ref, EABI: aarch64\n"
            "$ pip list | grep torch\n"
            "torch  2.0.1\n"
            ">>> torch.cuda.is_available()\n"
            "False"
        ),
    ),
    (
        "minor-version-compat-ok",
        (
            "PyTorch version: 2.5.1+cu124\n"
            "CUDA used to build PyTorch: 12.4\n"
            "OS: Ubuntu 22.04 LTS (x86_64)\n"
            "Is CUDA available: True\n"
            "GPU models and configuration: GPU 0: NVIDIA A100-SXM4-40GB\n"
            "Nvidia driver version: 535.104.05"
        ),
    ),
    (
        "tf32-precision-expected",
        (">>> (a@b).cuda() differs from cpu; torch.backends.cuda.matmul.allow_tf32 = True\n# RTX 3090"),
    ),
    (
        "cpu-only-build",
        ("AssertionError: Torch not compiled with CUDA enabled"),
    ),
    (
        "numpy2-abi",
        ("ImportError: numpy.core.multiarray failed to import\nAttributeError: _ARRAY_API not found"),
    ),
    (
        "uvm-broken-after-suspend",
        (
            "2023 E tensorflow/compiler/xla/stream_executor/cuda/cuda_driver.cc:266] failed call to cuInit: CUDA_ERROR_UNKNOWN: unknown error"  # noqa: E501
        ),
    ),
    (
        "gpu-too-old-for-build",
        (
            "NVIDIA GeForce GT 710 with CUDA capability sm_35 is not compatible... Found GPU0 GeForce GT 710 which is of cuda capability 3.5. PyTorch no longer supports this GPU because it is too old. The minimum cuda capability supported by this library is 3.7."  # noqa: E501
        ),
    ),
    (
        "python-version-no-wheel",
        (
            "ERROR: Could not find a version that satisfies the requirement tensorflow==1.15 (from versions: 2.2.0, 2.3.0)\n"  # noqa: E501
            "$ python3 --version\n"
            "Python 3.8.10"
        ),
    ),
    (
        "fabric-manager-not-running",
        ("Failed to initialize CUDA: CUDA_ERROR_SYSTEM_NOT_READY"),
    ),
    (
        "driver-too-old-for-cuda",
        (
            "cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version"  # noqa: E501
        ),
    ),
]


@pytest.mark.parametrize(("cause", "text"), TEXTS, ids=[f"{cause}-{place}" for place, (cause, _) in enumerate(TEXTS)])
def test_the_text_names_its_cause_first(cause, text, matrix):
    report = judge(read_report(text, name="x", symptoms=matrix.symptoms), matrix)
    assert report.findings[0].cause == cause


HARMLESS = [
    "successful NUMA node read from SysFS had negative value (-1), but there must be at least one NUMA node",
    "TF-TRT Warning: Could not find TensorRT",
    " [WARNING]  async_io requires the dev libaio .so object and headers but these were not found.",
    "requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: https://huggingface.co/x",
    "E external/local_xla/xla/stream_executor/cuda/cuda_dnn.cc:9261] Unable to register cuDNN factory: Attempting to register factory for plugin cuDNN when one has already been registered",  # noqa: E501
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 23.69 GiB total capacity)",
    "/sbin/ldconfig.real: /usr/lib/wsl/lib/libcuda.so.1 is not a symbolic link",
    "request to query NVSwitch device information from NVSwitch driver failed with error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]",  # noqa: E501
]


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_harmless_never_warns(text, matrix):
    report = judge(read_report(text, name="x", symptoms=matrix.symptoms), matrix)
    assert [finding for finding in report.findings if finding.severity != "note"] == []


def test_a_fatal_line_stands_above_harmless_ones(matrix):
    text = "\n".join([*HARMLESS, "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.", *HARMLESS])
    report = judge(read_report(text, name="x", symptoms=matrix.symptoms), matrix)
    assert report.findings[0].cause == "gpu-fell-off-bus"
    assert report.findings[0].severity == "error"


def test_a_symptom_alone_asks_for_what_would_settle_it(matrix):
    text = "RuntimeError: CUDA error: no kernel image is available for execution on the device"
    finding = judge(read_report(text, name="x", symptoms=matrix.symptoms), matrix).findings[0]
    assert 1 <= len(finding.ask) <= 2
