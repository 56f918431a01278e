"""Records of the released steps, and their comparison with the accountant's plan."""
