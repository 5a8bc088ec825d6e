"""The verb that prepares this host."""


def setup() -> None:
    """Install MySQL builds, their base my.cnf and tools into the cache folder; nothing twice.

    In a clone `make setup` does the same, and makes the Python environment first.
    """
    from innolab.base import extras
    from innolab.hosts import playbooks

    extras.require("measure")
    playbooks.show("workstation.yml")
