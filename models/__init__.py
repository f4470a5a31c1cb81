"""Response matrix, item fit, groups and the PyMC model."""
