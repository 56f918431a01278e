"""Tables of the site as a whole: counters, workers, orders, classes, own tables."""
