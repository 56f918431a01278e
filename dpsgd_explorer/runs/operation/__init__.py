"""Operation of a site: workers, readiness, usage and the operator's orders."""
