#!/usr/bin/env bash
# The steps of the action, for any CI: install, measure where samples are named, gate, comment. Settings are the
# variables of action.yml; the exit code is the gate's. Needs bash and Python 3.10 or newer.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${PYTHON:-python3}
output=${OUTPUT:-profkit-out}
mkdir -p "$output"

install() {
    [ -n "${INSTALL:-}" ] || return 0
    if [ -n "${SAMPLES:-}" ]; then
        "$python" -m pip install --quiet "$INSTALL"
    else
        # Without torch: reading needs none.
        "$python" -m pip install --quiet --no-deps "$INSTALL" &&
            "$python" -m pip install --quiet -r "$here/../../../requirements-read.txt"
    fi
}

measure() {
    [ -n "${SAMPLES:-}" ] || return 0
    # shellcheck disable=SC2086  # options are words
    "$python" -m profkit profile "$SAMPLES" --runs "${AFTER:-profkit-runs}" ${OPTIONS:-} || [ $? -eq 1 ]
}

code=0
install || exit 3
measure || code=$?
if [ "$code" -eq 0 ]; then
    picture=""
    if [ -n "${PICTURE_BRANCH:-}" ] && [ -n "${GITHUB_REPOSITORY:-}" ]; then
        picture="${GITHUB_SERVER_URL:-https://github.com}/$GITHUB_REPOSITORY/blob/$PICTURE_BRANCH/${GITHUB_SHA:-x}.png?raw=true"
    fi
    "$python" -m profkit gate "$BEFORE" "${AFTER:-profkit-runs}" --fail-on-regression "${LIMIT:-5%}" -o "$output" \
        --picture "$picture" 2>"$output/error.txt" >/dev/null
    code=$?
fi
if [ ! -s "$output/comment.md" ]; then
    printf '<!-- profkit -->\n\n### profkit: nothing was compared (exit code %s)\n\n```\n%s\n```\n' "$code" \
        "$(tr '`' "'" 2>/dev/null <"$output/error.txt")" >"$output/comment.md"
fi
cat "$output/comment.md"
[ -n "${GITHUB_STEP_SUMMARY:-}" ] && cat "$output/comment.md" >>"$GITHUB_STEP_SUMMARY"
[ -n "${GITHUB_OUTPUT:-}" ] && echo "exit-code=$code" >>"$GITHUB_OUTPUT"
if [ "${COMMENT:-false}" = true ]; then
    "$python" "$here/comment.py" "$output" || echo "the comment could not be written" >&2
fi
exit "$code"
