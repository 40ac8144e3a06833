#!/bin/sh
# Makes triggers_h200.csv: needs nvcc, ncu, an NVIDIA GPU and the right to read counters. Usage: record.sh OUTPUT.csv
set -eu
here=$(dirname "$0")
work=$(mktemp -d)
nvcc -O3 -arch=sm_90 -o "$work/triggers" "$here/triggers.cu"
metrics=$(python3 -c "
from collectors.counters import counter_set, metrics_for
print(','.join(metrics_for([*counter_set('default'), *counter_set('deep')], '9.0')))")
ncu --config-file off --metrics "$metrics" --clock-control none --cache-control all \
    --csv --page raw --print-units base --log-file "$1" "$work/triggers"
