"""Parameters of a caller, and the configuration of a chain that they fill."""
