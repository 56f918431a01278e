"""How each kind of run is listed, shown and taken away."""
