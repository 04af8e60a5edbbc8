"""Paper 2: layer-wise equivariance learned by the marginal likelihood."""
