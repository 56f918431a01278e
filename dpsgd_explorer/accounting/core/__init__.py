"""Parts that accountants share: phases, intervals, root finding, validation."""
