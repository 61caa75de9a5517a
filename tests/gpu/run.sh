#!/usr/bin/env bash
# Runs one part of the GPU lane and keeps what it printed. No part takes longer than 9 minutes.
#   tests/gpu/run.sh tests|copies|sweep|sanitizer OUT [COMMIT]
#     tests      the tests marked gpu
#     copies     the copy kernels against contiguous DMA (tests/gpu/acceptance.py)
#     sweep      a quick sweep into a new database, and what Auto answers from it
#     sanitizer  compute-sanitizer memcheck and initcheck over the tests that provoke no driver error
set -uo pipefail
part=$1 out=$2 commit=${3:-$(git rev-parse HEAD 2>/dev/null)}
python=${PYTHON:-python3}
cd "$(dirname "$0")/../.."
mkdir -p "$out"

# "$@" with a limit in seconds; its output goes to the terminal and into OUT/NAME.log.
keep() {
  local name=$1 limit=$2
  shift 2
  timeout --kill-after=10 "$limit" "$@" 2>&1 | tee "$out/$name.log"
  local status=${PIPESTATUS[0]}
  echo "== $name: exit $status" | tee -a "$out/$name.log"
  return "$status"
}

tests() {
  keep tests 500 "$python" -m pytest -q -m gpu -p no:cacheprovider tests
}

copies() {
  keep copies 500 "$python" tests/gpu/acceptance.py --out "$out" --commit "$commit"
}

sweep() {
  local tune=("$python" -m pega_tune --db "$out/profiles.db") failed=0
  keep doctor 60 "${tune[@]}" doctor || failed=1
  keep sweep 300 bash -c 'time "$@"' _ "${tune[@]}" sweep --preset quick --json || failed=1
  keep sweeps 60 "${tune[@]}" sweeps list || failed=1
  keep profiles 60 "${tune[@]}" profiles list || failed=1
  local shape
  for shape in "16384 67108864 h2d" "1 67108864 h2d" "16384 67108864 d2h" "16384 67108864 both" "64 4194304 both"; do
    # shellcheck disable=SC2086
    set -- $shape
    keep "decide-$1-$3" 60 "${tune[@]}" decide --ranges "$1" --bytes "$2" --direction "$3" --json || failed=1
  done
  return "$failed"
}

sanitizer() {
  local tool failed=0
  for tool in memcheck initcheck; do
    keep "sanitizer-$tool" 250 compute-sanitizer --tool "$tool" --target-processes all --error-exitcode 99 \
      "$python" -m pytest -q -m gpu -p no:cacheprovider tests/gpu \
      --ignore tests/gpu/test_refusals.py --ignore tests/gpu/test_crash.py || failed=1
  done
  return "$failed"
}

case $part in
  tests | copies | sweep | sanitizer) "$part" ;;
  *) sed -n '2,7p' "$0" >&2 && exit 2 ;;
esac
