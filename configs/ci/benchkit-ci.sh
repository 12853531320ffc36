#!/usr/bin/env bash
# Compares two states of a repository in one job on one machine, and keeps the history of its main branch.
#
#   benchkit-ci.sh compare   builds base and head, runs them side by side, writes Markdown and the report, and
#                            ends with the exit code of the gate: 0 passed, 3 regressed, 4 inconclusive
#   benchkit-ci.sh measure   the same without a gate: 0 if the comparison ran
#   benchkit-ci.sh publish   adds the measured run to the history branch, pushes it, and shows the history
#   benchkit-ci.sh record    measure, then publish: for each commit on main, with a base that stays the same (a release),
#                            because the history is that of the ratio to it
#
# Settings (environment):
#   BENCHKIT_BUILD      command that builds the server, into {out}; for compare and record
#   BENCHKIT_RUN        command line of the server that was built, started in {out}; for compare and record
#   BENCHKIT_BASE       ref of the base; of a branch that went on since, its merge base with the head
#   BENCHKIT_HEAD       ref of the head [HEAD]
#   BENCHKIT_THRESHOLD  worsening that the gate allows [rps=5%]
#   BENCHKIT_INCONCLUSIVE  `pass`: an inconclusive gate ends with 0 [fail]
#   BENCHKIT_DURATION   seconds that the comparison may take [180]
#   BENCHKIT_OPTIONS    more options of `benchkit versus`, one a line
#   BENCHKIT_OUT        folder of the results [benchkit-out]
#   BENCHKIT_HISTORY    branch of the history [benchkit-history]
#   BENCHKIT_REMOTE     remote of that branch [origin]
#
# The results: summary.md, report/report.html with its figures, and the store with the run.
set -euo pipefail

out=${BENCHKIT_OUT:-benchkit-out}
store=$out/store
remote=${BENCHKIT_REMOTE:-origin}
branch=${BENCHKIT_HISTORY:-benchkit-history}
ATTEMPTS=3 # to push: other jobs may push at the same time

require() {
  for name in "$@"; do
    if [ -z "${!name:-}" ]; then
      echo "benchkit-ci.sh: $name is not set; the head of this file says what it is for" >&2
      exit 2
    fi
  done
}

# The refs have the same names in every run, so that the cells of all runs are the same: base and head.
measure() {
  require BENCHKIT_BUILD BENCHKIT_RUN BENCHKIT_BASE
  head=$(git rev-parse --verify --quiet "${BENCHKIT_HEAD:-HEAD}^{commit}") || { echo "no commit ${BENCHKIT_HEAD:-HEAD}" >&2; exit 2; }
  base=$(git merge-base "$BENCHKIT_BASE" "$head") || {
    echo "benchkit-ci.sh: no merge base of $BENCHKIT_BASE and $head: fetch the whole history (fetch-depth: 0, GIT_DEPTH: 0)" >&2
    exit 2
  }
  git update-ref refs/benchkit/base "$base"
  git update-ref refs/benchkit/head "$head"
  options=()
  while IFS= read -r option; do
    if [ -n "$option" ]; then options+=("$option"); fi
  done <<<"${BENCHKIT_OPTIONS:-}"
  mkdir -p "$out"
  benchkit versus --build "$BENCHKIT_BUILD" --run "$BENCHKIT_RUN" --ref benchkit/base --ref benchkit/head \
    --duration "${BENCHKIT_DURATION:-180}" --tag "commit=$head" --store "$store" --json \
    ${options[@]+"${options[@]}"} >"$out/versus.json"
  benchkit report latest --store "$store" -o "$out/report" >/dev/null
}

compare() {
  measure
  gate=0
  benchkit compare latest --store "$store" --threshold "${BENCHKIT_THRESHOLD:-rps=5%}" --format markdown \
    >"$out/summary.md" || gate=$?
  case $gate in 0 | 3 | 4) ;; *) exit "$gate" ;; esac
  # shellcheck disable=SC2016 # backquotes of Markdown
  {
    echo
    echo "Base $(git log -1 --format='`%h` (%cs)' refs/benchkit/base), head $(git log -1 --format='`%h` (%cs)' refs/benchkit/head)."
    echo "The report with its figures is \`report/report.html\` in the results of this job."
  } >>"$out/summary.md"
  cat "$out/summary.md"
  if [ "$gate" -eq 4 ] && [ "${BENCHKIT_INCONCLUSIVE:-fail}" = pass ]; then gate=0; fi
  exit "$gate"
}

publish() {
  tree=$(mktemp -d)
  first=refs/heads/$branch-first-$$ # only until the branch is pushed
  trap 'git worktree remove --force "$tree" 2>/dev/null || true; rm -rf "$tree"; git update-ref -d "$first"' EXIT
  for ((attempt = 1; attempt <= ATTEMPTS; attempt++)); do
    check_out_history
    mkdir -p "$tree/runs" "$tree/tables"
    cp -R "$store/runs/." "$tree/runs/"
    cp -R "$store/tables/." "$tree/tables/"
    rm -rf "$tree"/runs/*/report
    echo /compact/ >"$tree/.gitignore"
    git -C "$tree" add --all
    if git -C "$tree" diff --cached --quiet; then
      break # published before
    fi
    git -C "$tree" -c user.name=benchkit -c user.email=benchkit@localhost commit --quiet \
      --message "Add the run of $(git rev-parse --short refs/benchkit/head)"
    if git -C "$tree" push --quiet "$remote" "HEAD:refs/heads/$branch"; then break; fi
    if [ "$attempt" -eq "$ATTEMPTS" ]; then
      echo "benchkit-ci.sh: cannot push $branch to $remote; may this job write there?" >&2
      exit 1
    fi
  done
  benchkit history versus --store "$tree" | tee "$out/history.txt"
  benchkit history versus --store "$tree" --json >"$out/history.json"
}

check_out_history() {
  git worktree remove --force "$tree" 2>/dev/null || rm -rf "$tree"
  if git ls-remote --exit-code --heads "$remote" "$branch" >/dev/null; then
    git fetch --quiet "$remote" "+refs/heads/$branch:refs/benchkit/history"
    git worktree add --quiet --detach "$tree" refs/benchkit/history
  else
    git worktree add --quiet --detach --no-checkout "$tree"
    git -C "$tree" symbolic-ref HEAD "$first"
    git -C "$tree" read-tree --empty
  fi
}

case ${1:-} in
  compare) compare ;;
  measure) measure ;;
  publish) publish ;;
  record) measure && publish ;;
  *)
    echo "usage: benchkit-ci.sh compare | measure | publish | record" >&2
    exit 2
    ;;
esac
