"""A Plan to a Dockerfile."""
