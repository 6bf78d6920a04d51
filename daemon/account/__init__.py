"""The account: its connection, permissions, locks, and access that ends or is given up."""
