"""The loops, one file each: what a reader sees is what runs."""
