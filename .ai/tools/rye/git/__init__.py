"""Tools for the git repository that the project is in; what they share is in `repository`."""
