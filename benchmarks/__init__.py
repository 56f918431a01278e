"""What private training costs: measured, written down, and put into the docs."""
