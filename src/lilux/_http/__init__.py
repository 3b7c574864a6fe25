"""What `lilux.primitives.http_client` is made of; nothing here is for anybody else.

| module | is about |
| --- | --- |
| `spec`, `template`, `checks` | what to ask: a configuration and parameters become an `HttpSpec` |
| `url`, `address` | where: an address in the two parts that are checked and sent; who is public |
| `exchange`, `redirect`, `clients` | one attempt: its hops, its connections, its answer as far as it came |
| `body`, `events`, `sinks` | the answer: unpacked and decoded within a limit, or events and who gets them |
| `failures`, `retry` | what went wrong, as one table of codes, and when to try again |

A module imports only those of the layers below it (`.importlinter`). The package itself imports none of them.
"""
