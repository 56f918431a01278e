"""The chapters, one folder each."""
