"""What the tools of this directory share. This file makes them a package: all of it is signed together."""
