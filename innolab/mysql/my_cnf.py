"""The base my.cnf of a host, which all its servers include."""

from pathlib import Path


def base_settings_file(cache: Path) -> Path:
    """Return the host's base my.cnf, which the playbook leaves in the cache folder."""
    return cache / "etc" / "my.cnf"


def base_settings(text: str) -> dict[str, str]:
    """Return the settings of a my.cnf of one section, names with underscores, bare names ON."""
    settings = {}
    for line in text.splitlines():
        text = line.split("#")[0].strip()
        if text and not text.startswith("["):
            name, _, value = text.partition("=")
            settings[name.strip().replace("-", "_")] = value.strip() or "ON"
    if settings.pop("skip_log_bin", None):
        settings["log_bin"] = "OFF"  # The option of that name sets this variable.
    return settings
