"""The collection innolab.hosts: another project can use it, and every part names its options."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml
from conftest import BIN, COLLECTION, COLLECTIONS, HOSTS

MODULES = sorted(x.stem for x in (COLLECTION / "plugins/modules").glob("*.py"))
ROLES = sorted(x.name for x in (COLLECTION / "roles").iterdir())
NAME = HOSTS.partition(".")[2]

# What another project might do with it; as in ours, a check changes nothing.
PLAYBOOK = """
- hosts: localhost
  gather_facts: false
  connection: local
  vars:
    emulated_disk: "{{ emulated_disk_defaults | combine({'folder': folder, 'state': 'absent'}) }}"
  tasks:
    # It finds what it imports, and says so before it looks at any disk.
    - innolab.hosts.md_storage:
      register: refused
      failed_when: "'missing: layout' not in refused.msg"
    - ansible.builtin.import_role:
        name: innolab.hosts.emulated_disk
"""


def ran(folder: Path, *words: str | Path) -> str:
    """Run a program of Ansible in a folder of another project; return what it said."""
    env = {k: v for k, v in os.environ.items() if k != "ANSIBLE_CONFIG"}
    done = subprocess.run(
        [BIN / words[0], *words[1:]],
        cwd=folder,
        env={**env, "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.integration
def test_another_project_uses_roles_and_modules(tmp_path: Path) -> None:
    (tmp_path / "play.yml").write_text(PLAYBOOK)
    disk = tmp_path / "disk"
    said = ran(
        tmp_path, "ansible-playbook", "play.yml", "--check", "--diff", "-e", f"folder={disk}"
    )
    assert " changed=0 " in said, said
    assert list(tmp_path.iterdir()) == [tmp_path / "play.yml"]


def test_every_module_and_role_says_its_options(tmp_path: Path) -> None:
    names = [f"{NAME}.{x}" for x in MODULES]
    shown = json.loads(ran(tmp_path, "ansible-doc", "--json", "--type", "module", *names))
    assert sorted(shown) == names
    assert all(x["doc"]["options"] and x["examples"] for x in shown.values())
    names = [f"{NAME}.{x}" for x in ROLES]
    shown = json.loads(ran(tmp_path, "ansible-doc", "--json", "--type", "role", *names))
    assert sorted(shown) == names
    assert all(entry["options"] for x in shown.values() for entry in x["entry_points"].values())


def test_collection_says_its_version_and_what_it_needs() -> None:
    galaxy = yaml.safe_load((COLLECTION / "galaxy.yml").read_text())
    assert f"{galaxy['namespace']}.{galaxy['name']}" == NAME
    assert "requires_ansible" in (COLLECTION / "meta/runtime.yml").read_text()
