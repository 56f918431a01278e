"""Training on an accelerator: full-size models in bfloat16, and noise."""
