"""From wishes to a plan: candidates, the constraints that wishes are, the resolver, and why there is none."""
