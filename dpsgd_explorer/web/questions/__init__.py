"""Questions about privacy and their answers, independent of Flask."""
