"""Extended attributes, one module per subject."""
