#!/bin/sh
# with-perf-map.sh NODE ARGUMENTS: starts node with a map of its compiled functions for perf, also each of its workers.
# Each makes a file named by its process id in the working directory first, so that its map can be found and removed.
#
# perf reads the map at one path only. V8 writes it there through any link, so that another user, who can guess the process
# id, could have it overwrite a file of this user. Here the file is made first, under a name that nobody can guess, and
# linked to that path, which fails where anything is there already. In a folder with the sticky bit no other user can
# replace it then.
if [ -z "${PERF_MAP_NODE:-}" ]; then
  export PERF_MAP_NODE="$1" PERF_MAP_LAUNCHER="$0" PERF_MAP_OPTIONS="${NODE_OPTIONS:-}"
  shift
fi
export NODE_OPTIONS="$PERF_MAP_OPTIONS"
map="/tmp/perf-$$.map"
if : > "$$" && empty=$(mktemp /tmp/perf-map.XXXXXXXXXX); then
  if ln -T "$empty" "$map"; then
    NODE_OPTIONS="$NODE_OPTIONS --perf-basic-prof"
  else
    echo "node: no map for perf: $map is there already, made by somebody else" >&2
  fi
  rm -f "$empty"
fi
exec "$PERF_MAP_NODE" "$@"
