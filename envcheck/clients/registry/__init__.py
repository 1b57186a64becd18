"""The OCI distribution API: manifests, configs and layers of images, read without pulling."""

from envcheck.clients.registry.client import Options, list_tags, read_image
from envcheck.clients.registry.errors import NotFound, Refused, RegistryError

__all__ = ["NotFound", "Options", "Refused", "RegistryError", "list_tags", "read_image"]
