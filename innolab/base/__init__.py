"""What every room uses: errors, files, units, parsing, clock, provenance."""
