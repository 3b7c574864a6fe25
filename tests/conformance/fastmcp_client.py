"""Reads every skill of a server with the client of FastMCP, which has the extension, and prints what it got.

`python fastmcp_client.py COMMAND DIRECTORY`: the server is started there, with this environment.
"""

import asyncio
import base64
import hashlib
import json
import os
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.skills.client import SkillsClientExtension


async def main(command: str, directory: str) -> None:
    transport = StdioTransport(command, [], env=dict(os.environ), cwd=directory)
    found = []
    async with Client(transport, extensions=[SkillsClientExtension()]) as client:
        for listed in await client.list_skills():
            skill = await client.get_skill(listed.uri)
            files = {}
            for each in skill.resources:
                (content,) = await client.read_resource(each.uri)
                data = base64.b64decode(content.blob) if hasattr(content, "blob") else content.text.encode()
                same = each.digest == f"sha256:{hashlib.sha256(data).hexdigest()}" and each.size == len(data)
                files[each.uri] = data.decode() if same else None
            found.append({"uri": skill.uri, "frontmatter": skill.frontmatter.root, "files": files})
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
