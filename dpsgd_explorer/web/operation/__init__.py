"""What the operator of a site watches and steers."""
