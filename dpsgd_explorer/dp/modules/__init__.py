"""What is learnt of a torch module and put on it: forward patches, hooks, state."""
