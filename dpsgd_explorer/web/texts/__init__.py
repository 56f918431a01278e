"""Texts of the site in other languages: no text is marked, see decision 0033."""
