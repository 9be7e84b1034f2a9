"""The scripted upstream of some tests."""

import json
import os
import urllib.request

FAKE = os.environ["TAPRI_FAKE_UPSTREAM"]


def control(method, path, body=None):
    """Tells it what to say, or asks what it saw."""
    request = urllib.request.Request(f"{FAKE}{path}", json.dumps(body).encode() if body else None, method=method)
    return json.load(urllib.request.urlopen(request))
