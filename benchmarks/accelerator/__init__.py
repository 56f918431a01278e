"""Training on an accelerator: models of full size in bfloat16, and the noise there."""
