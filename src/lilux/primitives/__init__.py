"""The primitives: one module for each thing that Lilux can do. Import them by their full name."""
