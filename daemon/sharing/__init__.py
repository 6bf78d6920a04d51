"""What others share with this account: shown, offered, regained, wiped."""
