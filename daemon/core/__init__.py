"""Foundations of the daemon: request scheduling, health, supervision, remote updates."""
