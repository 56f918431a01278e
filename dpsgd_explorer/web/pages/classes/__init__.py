"""The pages of classes: making one, joining it, its roster and chart."""
