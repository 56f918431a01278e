"""The loops, one file each: the reader sees exactly the code that runs."""
