"""Devices: profiles, emulated disks, arrays, and where a trial's data is."""
