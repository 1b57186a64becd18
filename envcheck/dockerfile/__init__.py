"""From a plan to a Dockerfile and the files beside it."""
