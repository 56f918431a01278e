"""Names of other libraries for this library's engine."""
