"""The Docker engine and image registries."""
