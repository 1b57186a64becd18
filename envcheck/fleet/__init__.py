"""Slurm, Kubernetes and many nodes at once."""
