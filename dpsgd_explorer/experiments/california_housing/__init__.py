"""California housing, and the recorded errors of noisy descents on it."""
