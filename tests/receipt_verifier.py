"""Verifies exported receipts without rye-mcp: python receipt_verifier.py KEY.pem < receipts.ndjson."""

import base64
import hashlib
import json
import sys
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

KEY = load_pem_public_key(Path(sys.argv[1]).read_bytes())
assert isinstance(KEY, Ed25519PublicKey), "expected an Ed25519 key"
TYPE = "application/vnd.in-toto+json"
before: dict[int, str] = {}  # number → SHA-256 of its line
for raw in sys.stdin.buffer:
    line = raw.rstrip(b"\n")
    envelope = json.loads(line)
    payload = base64.b64decode(envelope["payload"])
    signed = b"DSSEv1 %d %s %d %s" % (len(TYPE), TYPE.encode(), len(payload), payload)
    KEY.verify(base64.b64decode(envelope["signatures"][0]["sig"]), signed)  # raises when it is not good
    statement = json.loads(payload)
    assert envelope["payloadType"] == TYPE
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "urn:rye-mcp:run-receipt:v1"
    verified = statement["predicate"]["verified"]
    number, previous = verified["receipt"]["number"], verified["receipt"]["previous"]
    assert before.get(number - 1, previous) == previous, f"receipt {number} follows another one"
    before[number] = hashlib.sha256(line).hexdigest()
    items = [each["name"] for each in statement["subject"] if each["name"].startswith("item:")]
    sys.stdout.write(f"{number} {verified['run_id']} {' '.join(items)}\n")
