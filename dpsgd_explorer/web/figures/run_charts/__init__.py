"""Charts of a training run as SVG, shown until the page's script draws live charts.

Each chart has the axes of its live chart in static/js/charts: test accuracy against ε,
gradient norms around C, and loss along the steps.
"""
