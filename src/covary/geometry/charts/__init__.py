"""Charts: coordinates of parameter space and the maps between them."""
