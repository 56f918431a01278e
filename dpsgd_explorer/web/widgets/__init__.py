"""Pictures one can touch: each computes its data here and moves by a script module."""
