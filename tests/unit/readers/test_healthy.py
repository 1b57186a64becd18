"""Environments with nothing wrong, as their tools print them: no finding above a note."""

from __future__ import annotations

import pytest

from envcheck.pipeline import judge
from envcheck.readers.detect import read_report

HEALTHY = {
    "ds cpu": (
        "DeepSpeed C++/CUDA extension op report\n"
        "--\n"
        "cpu_adam ............... [NO] ....... [OKAY]\n"
        "DeepSpeed general environment info:\n"
        "torch version .................... 2.12.0+cpu\n"
        "deepspeed info ................... 0.19.0, unknown, unknown\n"
        "deepspeed wheel compiled w. ...... torch 0.0\n"
        "shared memory (/dev/shm) size .... 7.80 GB"
    ),
    "ds cu102": (
        "DeepSpeed C++/CUDA extension op report\n"
        "torch version .................... 1.12.1+cu102\n"
        "torch cuda version ............... 10.2\n"
        "torch hip version ................ None\n"
        "nvcc version ..................... 10.0\n"
        "deepspeed info ................... 0.7.4, unknown, unknown"
    ),
    "ds nightly": (
        "torch version .................... 1.13.0a0+git49444c3\n"
        "torch cuda version ............... 11.8\n"
        "nvcc version ..................... 11.8\n"
        "shared memory (/dev/shm) size .... 251.61 GB"
    ),
    "conda": (
        "PyTorch version: 1.11.0\n"
        "CUDA used to build PyTorch: 11.3\n"
        "Is CUDA available: True\n"
        "OS: Ubuntu 20.04\n"
        "[pip3] torch==1.11.0\n"
        "[pip3] numpy==1.21.2\n"
        "[pip3] torchvision==0.12.0\n"
        "[conda] cudatoolkit               11.3.1               h2bc3f7f_2    defaults\n"
        "[conda] pytorch 1.11.0 py3.9_cuda11.3_cudnn8.2.0_0 pytorch\n"
        "[conda] torchvision 0.12.0 py39_cu113 pytorch"
    ),
    "win": (
        "PyTorch version: 2.3.1+cu121\n"
        "CUDA used to build PyTorch: 12.1\n"
        "OS: Microsoft Windows 11 Pro\n"
        "Is CUDA available: True\n"
        "GPU models and configuration: GPU 0: NVIDIA GeForce RTX 4070\n"
        "Nvidia driver version: 555.85\n"
        "[pip3] numpy==1.26.4\n"
        "[pip3] torch==2.3.1+cu121\n"
        "[pip3] torchvision==0.18.1+cu121"
    ),
    "mac": (
        "PyTorch version: 2.2.0\n"
        "CUDA used to build PyTorch: None\n"
        "ROCM used to build PyTorch: N/A\n"
        "OS: macOS 14.5 (arm64)\n"
        "Is CUDA available: False\n"
        "GPU models and configuration: No CUDA\n"
        "[pip3] torch==2.2.0"
    ),
    "rocm": (
        "PyTorch version: 2.4.0+rocm6.1\n"
        "CUDA used to build PyTorch: N/A\n"
        "ROCM used to build PyTorch: 6.1.40091\n"
        "OS: Ubuntu 22.04.4 LTS (x86_64)\n"
        "Is CUDA available: True\n"
        "GPU models and configuration: AMD Instinct MI300X (gfx942)\n"
        "Nvidia driver version: Could not collect"
    ),
    "hf": (
        "- `transformers` version: 4.40.0\n"
        "- Platform: Linux-6.1.58+-x86_64-with-glibc2.35\n"
        "- Python version: 3.10.12\n"
        "- PyTorch version (GPU?): 2.2.1+cu121 (False)\n"
        "- Tensorflow version (GPU?): 2.15.0 (False)\n"
        "- Flax version (CPU?/GPU?/TPU?): 0.8.2 (cpu)\n"
        "- Jax version: 0.4.26\n"
        "- JaxLib version: 0.4.26\n"
        "- Using GPU in script?: no"
    ),
    "tflog": (
        "2024-03-01 10:00:00.1: I tensorflow/core/util/port.cc:113] oneDNN custom operations are on.\n"
        "2024-03-01 10:00:01: I external/local_tsl/tsl/cuda/cudart_stub.cc:31] Could not find cuda drivers on your machine, GPU will not be used.\n"  # noqa: E501
        "2024: W tensorflow/compiler/tf2tensorrt/utils/py_utils.cc:38] TF-TRT Warning: Could not find TensorRT"
    ),
    "smi docker": (
        "$ docker run --rm --gpus all nvidia/cuda:12.4.1-base-ubuntu22.04 nvidia-smi\n"
        "| NVIDIA-SMI 535.183.01             Driver Version: 535.183.01   CUDA Version: 12.4     |\n"
        "|   0  NVIDIA A100-SXM4-40GB          On  | 00000000:07:00.0 Off |                    0 |"
    ),
    "tb": (
        "Traceback (most recent call last):\n"
        '  File "/usr/lib/python3.10/site-packages/torch/nn/modules/module.py", line 1, in x\n'
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied\n"
        "$ nvidia-smi -L\n"
        "GPU 0: NVIDIA GeForce RTX 3090 (UUID: GPU-1)"
    ),
    "pipl": (
        "$ pip list\n"
        "Package Version\n"
        "------- -------\n"
        "torch 2.1.2\n"
        "torchvision 0.16.2\n"
        "numpy 1.26.4\n"
        "nvidia-cublas-cu12 12.1.3.1\n"
        "nvidia-cudnn-cu12 8.9.2.26\n"
        "pip 24.0\n"
        "triton 2.1.0\n"
        "xformers 0.0.23.post1"
    ),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_paste_raises_no_alarm(name, matrix):
    report = judge(read_report(HEALTHY[name], name=name, symptoms=matrix.symptoms), matrix)
    assert [(finding.rule, finding.message) for finding in report.findings if finding.severity != "note"] == []
