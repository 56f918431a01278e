"""How a step computes on this machine: precision, memory, kernels, devices."""
