"""What pages say: chapters, formulas, references, numbers."""
