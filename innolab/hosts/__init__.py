"""Hosts: this machine and those over ssh, what can be observed of them, and their tools."""
