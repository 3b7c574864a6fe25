#!/bin/sh
# What CI runs. RYE_TRUSTED_KEYS is set where the repository cannot set it: in the variables of the CI system.
set -eu
export RYE_LOCKED=1
rye verify --space project
rye lock verify
rye run check/links
