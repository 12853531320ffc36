#!/bin/sh
# Put the executable of a release of Node into a folder: fetch.sh VERSION FOLDER. npm's package `node` has one for each platform.
set -e
scratch=$(mktemp -d)
trap 'rm -r "$scratch"' EXIT
npm install --prefix "$scratch" --no-save --no-audit --no-fund "node@$1"
cp -L "$scratch/node_modules/node/bin/node" "$2/node"
