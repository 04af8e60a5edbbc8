"""Paper 3: the geometry of neural networks under reparametrization."""
