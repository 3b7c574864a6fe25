"""Who may run what: signatures, keys, whom this user trusts, and the one gate that decides.

    signature       the signature line of a file, and the statement that is signed
    text            what a file may hold to be signed or verified at all
    public_key      a public key and its names; `keys`: the key pairs of this user
    trust_document  a trusted key, who owns it, and what for; `scope`: what a signer may sign
    trust_store     whom this user trusts, in which order it is asked; `revocation`, `approvals`
    project         which project this is, and whether its unsigned files may be used
    manifest        what the system space holds; `seal` writes it, `sealed` pins it
    verify          `verify_item`, the gate; `sign`, which writes only what passes it

Nothing here prints, asks, or imports the code of a project. Nothing of a project decides who is trusted.
"""
