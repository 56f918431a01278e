"""Access to a torch module for all engines: patches, hooks, state, probe inputs."""
