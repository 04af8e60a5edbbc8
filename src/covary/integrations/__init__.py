"""Other libraries: one module per library, imported by its own name and only when it is used."""
