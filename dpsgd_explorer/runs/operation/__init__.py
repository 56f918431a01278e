"""The site as its operator sees it: workers, queue, orders."""
