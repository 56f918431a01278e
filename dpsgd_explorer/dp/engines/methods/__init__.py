"""How the norms and gradients of each layer call are computed."""
