"""The only readers of a live system."""
