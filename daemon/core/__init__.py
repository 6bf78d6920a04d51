"""What the rest of the agent builds on: request scheduling, health, supervision, remote updates."""
