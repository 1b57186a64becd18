"""Scripts that hold the matrix against its upstreams: one module an upstream, run by a maintainer, never by a user."""
