"""Put the RO-Crate context into the validator's cache, so that it validates without a network.

Run by the tools' own Python: CACHE CONTEXT.
"""

import io
import sys
from pathlib import Path

from requests.adapters import BaseAdapter, HTTPAdapter
from requests_cache import CachedSession
from urllib3 import HTTPResponse

URL = "https://w3id.org/ro/crate/1.1/context"


class FromFile(BaseAdapter):
    """Answers every request with one file."""

    def send(self, request, **_):
        body = io.BytesIO(Path(sys.argv[2]).read_bytes())
        answer = HTTPResponse(
            body, headers={"Content-Type": "application/ld+json"}, status=200, preload_content=False
        )
        return HTTPAdapter().build_response(request, answer)

    def close(self):
        """Nothing is open."""


with CachedSession(sys.argv[1], backend="sqlite", expire_after=-1) as session:
    session.mount("https://", FromFile())
    session.get(URL).raise_for_status()
