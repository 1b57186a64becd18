"""The compatibility matrix: rows, reader, laws and look-ups."""
