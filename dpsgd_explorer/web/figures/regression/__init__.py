"""Drawings of private linear regression: the lab's, the chapter's and its widget's."""
