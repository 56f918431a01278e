"""Classes: a teacher's group of visitors with a shared quota and a roster of runs."""
