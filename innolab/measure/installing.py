"""Have this innolab on hosts over ssh: its own files, servers and tools, brought to all at once."""

import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from innolab.hosts import installed, machine
from innolab.hosts.bundle import FOLDER, Bundle
from innolab.hosts.ssh import Remote
from innolab.mysql import builds
from innolab.mysql.builds import Build

# Hosts that are sent an archive at a time.
_SIDE_BY_SIDE = 8


def equip(hosts: Sequence[Remote], wanted: Sequence[str], say: Callable[[str], None]) -> Bundle:
    """Bring this innolab to hosts that lack it, and prove that their servers are ours.

    Parameters
    ----------
    wanted : the servers that go with it, by id
    say : takes a line about what is being done

    Raises
    ------
    InputError
        Where a host cannot be used, or a server does not lie in the cache; nothing was written.
    InnolabError
        Where a host does not take what is brought.
    """
    for host in hosts:
        installed.require_able(host)
    cache = machine.cache_folder()
    found = [builds.find(cache, name) for name in wanted]
    servers = [one for one in found if isinstance(one, Build)]
    for one in servers:
        builds.moved(one, cache, FOLDER)  # Refuses what lies elsewhere, before it is packed.
    # The record of one that is unavailable here says so there.
    bundle = Bundle(one.id for one in found)
    without = [host for host in hosts if not installed.is_there(host, bundle)]
    for host in without:
        installed.require_room(host)
    say(f"bringing innolab to {', '.join(host.name for host in hosts)}")
    # Without a name, so that nothing is left of it where we are killed.
    with tempfile.TemporaryFile(dir=cache) as archive:
        if without:
            bundle.pack(archive)
            archive.flush()
        with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
            packed = Path(f"/proc/self/fd/{archive.fileno()}")
            list(pool.map(lambda host: installed.bring(host, bundle, packed), hosts))
    for host in hosts:
        for one in servers:
            builds.require_same(one, host, FOLDER)
    return bundle
