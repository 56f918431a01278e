"""California housing, and recorded errors of noisy gradient descent on it."""
