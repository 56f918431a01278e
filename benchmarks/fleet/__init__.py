"""Load tests of a whole site with many visitors."""
