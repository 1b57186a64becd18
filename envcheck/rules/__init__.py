"""The rules: one module a family, one registry."""
