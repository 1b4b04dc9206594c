"""Makes a container of blobs: python3 make_container.py ENDPOINT ACCOUNT CONTAINER KEY

The endpoint has the account in its path, as that of Azurite.
"""

import base64
import hashlib
import hmac
import sys
import urllib.request
from email.utils import formatdate

endpoint, account, container, key = sys.argv[1:]
date, version = formatdate(usegmt=True), "2021-12-02"
# https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key
to_sign = "\n".join(
    ["PUT"]
    + [""] * 11
    + [
        f"x-ms-date:{date}",
        f"x-ms-version:{version}",
        f"/{account}/{account}/{container}",
        "restype:container",
    ]
)
digest = hmac.new(base64.b64decode(key), to_sign.encode(), hashlib.sha256).digest()
request = urllib.request.Request(f"{endpoint}/{container}?restype=container", method="PUT")
request.add_header("x-ms-date", date)
request.add_header("x-ms-version", version)
request.add_header("Authorization", f"SharedKey {account}:{base64.b64encode(digest).decode()}")
with urllib.request.urlopen(request, timeout=10) as answer:
    if answer.status != 201:
        sys.exit(f"status {answer.status}")
