"""Text and files to Snapshot."""
