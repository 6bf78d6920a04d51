"""What every other part of the agent stands on: scheduling of requests, health, supervision, remote
updates."""
