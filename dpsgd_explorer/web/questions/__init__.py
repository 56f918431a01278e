"""Questions about privacy and their answers, without Flask."""
