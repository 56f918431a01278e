"""How per-sample gradients are computed: the four engines and what they share."""
