"""What happens in a cell. Decides nothing about what to run, and imports nothing of the other packages."""
