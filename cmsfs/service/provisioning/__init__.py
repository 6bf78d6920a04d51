"""An enterprise from a file, and the demo."""
