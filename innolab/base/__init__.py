"""What every layer uses: errors, files, units, parsing, clock, provenance."""
