#!/usr/bin/env bash
# Runs one part of the GPU lane and keeps what it printed. No part takes longer than 9 minutes.
#   tests/gpu/run.sh tests|copies|engine1..engine4|serving-PART|policy-PART|verify-PART|sweep|standard|exhaustive|batches|sanitizer OUT [COMMIT]
#     tests      the tests marked gpu
#     copies     the copy kernels against contiguous DMA (tests/gpu/acceptance.py)
#     engineN    part N of what the transfer engine must reach (tests/gpu/acceptance_engine.py)
#     standard   a standard sweep with both colocations into OUT/profiles.db; standard-mps: in MPS, too
#     serving-PART  a part of what is measured beside decode (tests/gpu/acceptance_serving.py); those that need a sweep
#                take that of OUT
#     policy-PART  a part of what Auto must be worth (tests/gpu/acceptance_policy.py): regret, tail, twice; the first two
#                judge the profile of DB, or of OUT/profiles.db; DEVICE and SEED are passed on
#     verify-PART  a part of what `pega-tune verify` must see (tests/gpu/acceptance_verify.py): sweep, same, scaled, hog;
#                with the database of DB, or of OUT/verify.db; DEVICE is passed on
#     sweep      a quick sweep into a new database, and what Auto answers from it
#     exhaustive every plan at a few transfers, without decode, as a recording: OUT/exhaustive.jsonl.gz
#     batches    batched copies by the copies of a call, from one thread and from two (tests/gpu/batch_calls.py)
#     sanitizer  compute-sanitizer memcheck and initcheck over the tests that provoke no driver error
set -uo pipefail
part=$1 out=$2 commit=${3:-$(git rev-parse --verify -q HEAD)}
python=${PYTHON:-python3}
cd "$(dirname "$0")/../.."
mkdir -p "$out"

# Runs "$@" for at most LIMIT seconds; what it prints goes to the terminal and into OUT/PART.log.
keep() {
  local limit=$1 status
  shift
  {
    echo "== ${*//"$out"/OUT}"
    timeout --kill-after=10 "$limit" "$@" 2>&1
    status=$?
    echo "== exit $status after $SECONDS s"
    exit "$status"
  } | tee -a "$out/$part.log"
  return "${PIPESTATUS[0]}"
}

# The sweep that a program with its database, "$@", began last.
newest_sweep() {
  "$@" sweeps list --json | "$python" -c 'import json, sys; print(json.load(sys.stdin)["sweeps"][0]["sweep"])'
}

tests() {
  keep 500 "$python" -m pytest -q -m gpu -p no:cacheprovider --durations=12 tests
}

copies() {
  keep 500 "$python" tests/gpu/acceptance.py --out "$out" --commit "$commit"
}

engine() {
  keep 535 "$python" tests/gpu/acceptance_engine.py --out "$out" --part "$1" --commit "$commit"
}

serving() {
  local found=()
  if [ -e "$out/sweep.json" ]; then found=(--sweep "$out/sweep.json" --db "$out/profiles.db"); fi
  keep 535 "$python" tests/gpu/acceptance_serving.py --out "$out" --part "$1" --commit "$commit" "${found[@]}"
}

policy() {
  keep 535 "$python" tests/gpu/acceptance_policy.py --out "$out" --part "$1" --commit "$commit" \
    ${DB:+--db "$DB"} ${DEVICE:+--device "$DEVICE"} ${SEED:+--seed "$SEED"}
}

verify() {
  keep 535 "$python" tests/gpu/acceptance_verify.py --out "$out" --part "$1" --commit "$commit" \
    ${DB:+--db "$DB"} ${DEVICE:+--device "$DEVICE"}
}

standard() {
  local tune=("$python" -m pega_tune --db "$out/profiles.db") failed=0 options=() command sweep
  if [ "${1:-}" = mps ]; then options=(,mps --start-mps --budget 8m); fi
  command=(sweep --preset standard --colocation "time-sliced,same-context${options[0]:-}" "${options[@]:1}")
  keep 530 "${tune[@]}" "${command[@]}" --json || failed=1
  sweep=$(newest_sweep "${tune[@]}")
  "${tune[@]}" sweeps show --json "$sweep" >"$out/sweep.json"
  keep 60 "${tune[@]}" sweeps export --output "$out/$part.jsonl.gz" --commit "$commit" \
    --command "pega-tune ${command[*]}" "$sweep" || failed=1
  return "$failed"
}

sweep() {
  local tune=("$python" -m pega_tune --db "$out/profiles.db") failed=0 shape
  keep 60 "${tune[@]}" doctor || failed=1
  keep 300 "${tune[@]}" sweep --preset quick --json || failed=1
  keep 60 "${tune[@]}" sweeps list || failed=1
  keep 60 "${tune[@]}" profiles list || failed=1
  for shape in "16384 67108864 h2d" "1 67108864 h2d" "16384 67108864 d2h" "16384 67108864 both" "64 4194304 both"; do
    read -r ranges bytes direction <<<"$shape"
    keep 60 "${tune[@]}" decide --ranges "$ranges" --bytes "$bytes" --direction "$direction" || failed=1
  done
  return "$failed"
}

exhaustive() {
  local tune=("$python" -m pega_tune --db "$out/exhaustive.db") status
  keep 535 "${tune[@]}" sweep --exhaustive --json
  status=$?
  if [ "$status" != 5 ]; then return 1; fi  # finished; the profile of such a sweep is a draft
  keep 60 "${tune[@]}" sweeps export --output "$out/exhaustive.jsonl.gz" --commit "$commit" \
    --command "pega-tune sweep --exhaustive" "$(newest_sweep "${tune[@]}")"
}

batches() {
  local size ranges bytes rounds
  for size in "16384 4096 9" "1024 65536 31"; do
    read -r ranges bytes rounds <<<"$size"
    keep 120 "$python" tests/gpu/batch_calls.py --ranges "$ranges" --range-bytes "$bytes" --rounds "$rounds" \
      --copies 64,128,256,512,1024 || return 1
  done
}

sanitizer() {
  local tool failed=0 tests
  # initcheck follows every word of device memory: it takes what runs our kernels alone, so as to end in time.
  local own=(tests/gpu/test_{kernels,batched_copies,engine_backends,memory_and_streams,spans}.py)
  for tool in memcheck initcheck; do
    tests=(tests/gpu)
    if [ "$tool" = initcheck ]; then tests=("${own[@]}"); fi
    # cuda.bindings asks the driver for functions of later releases: calls that fail by design, and no memory errors.
    keep 250 compute-sanitizer --tool "$tool" --report-api-errors no --target-processes all --error-exitcode 99 \
      "$python" -m pytest -q -m gpu -p no:cacheprovider "${tests[@]}" \
      --ignore tests/gpu/test_refusals.py --ignore tests/gpu/test_crash.py --ignore tests/gpu/test_serving.py \
      --ignore tests/gpu/test_transfer_worker.py --ignore tests/gpu/test_decode.py || failed=1
  done
  return "$failed"
}

case $part in
  tests | copies | sweep | standard | exhaustive | batches | sanitizer) "$part" ;;
  standard-mps) standard mps ;;
  serving-*) serving "${part#serving-}" ;;
  policy-*) policy "${part#policy-}" ;;
  verify-*) verify "${part#verify-}" ;;
  engine[1-4]) engine "${part#engine}" ;;
  *) sed -n '2,17p' "$0" >&2 && exit 2 ;;
esac
