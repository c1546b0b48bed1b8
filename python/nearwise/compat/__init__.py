"""Stand-ins for other libraries: the names, keywords and defaults that their users have."""
