"""How data gets to a device: what holds tensors, how it is made anew around moved ones, and how tensors are copied."""
