"""Figures of private linear regression for the lab, the chapter and its widget."""
