"""Tools on a torch module below the engines: patches, hooks, state, probe inputs."""
