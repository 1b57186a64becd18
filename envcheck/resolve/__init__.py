"""A request to a Plan."""
