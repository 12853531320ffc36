#!/bin/sh
# What others have to deploy plain.js: `start PORT LOG` and `stop LOG`; the work of a request is a level.
set -eu
here=$(dirname "$0")
case $1 in
start)
	echo "deploy $BENCHKIT_CELL $BENCHKIT_BLOCK" >>"$3"
	setsid node "$here/plain.js" "$2" "$BENCHKIT_LEVEL_WORK" </dev/null >/dev/null 2>&1 &
	echo $! >"$3.pid"
	;;
stop)
	echo "cleanup $BENCHKIT_CELL $BENCHKIT_BLOCK" >>"$2"
	kill "$(cat "$2.pid")"
	rm "$2.pid"
	;;
esac
