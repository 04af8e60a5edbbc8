"""Matrix-free estimates: traces, eigenvalues and log-determinants with their errors."""
