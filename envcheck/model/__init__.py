"""Values only: facts, machine, stack, snapshot, findings, requests and plans; no I/O."""
