"""Texts of pages: notes, formulas, glossary, references."""
