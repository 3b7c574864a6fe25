"""The pin of the system space's manifest. Written by `make docs`, not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "efeb92a53c71da9e7932f70c906fa794721fb8c06c1da9302e8793dba241880a"
