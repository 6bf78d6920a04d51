"""The administrators' pages of people: users, groups, invitations, terms of service."""
