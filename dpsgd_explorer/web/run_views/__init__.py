"""Views of runs, by kind: lists, pages and exports."""
