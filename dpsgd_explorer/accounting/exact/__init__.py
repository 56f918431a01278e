"""The exact accountant: privacy losses composed by contour integrals."""
