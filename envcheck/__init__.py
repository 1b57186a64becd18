"""Will this driver, CUDA, cuDNN, framework, Python and GPU work together, and if not, what to change."""

__version__ = "0.1.0"
