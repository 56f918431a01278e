"""The charts of a training run as SVG, before and without the script that draws them.

Each has the axes of its live chart (static/js/charts), so that one takes the place of
the other: test accuracy against ε, gradient norms around C, loss along the steps.
"""
