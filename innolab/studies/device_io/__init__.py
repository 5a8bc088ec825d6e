"""The study device-io: what a device does under the patterns of SQLIO and IOMeter."""
