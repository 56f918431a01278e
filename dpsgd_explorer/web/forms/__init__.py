"""Forms made from the configurations."""
