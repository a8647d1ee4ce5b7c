#!/bin/sh
# Everything about CUDA on a machine with one or two NVIDIA GPUs and PyTorch, in one call. Results: $OUT/cuda.json.
set -e
cd "$(dirname "$0")/../.."
OUT="${OUT:-/tmp/egpu-device}"
export OUT
mkdir -p "$OUT"
if [ ! -x /tmp/egpu-node ]; then
  gzip -dc .device/node.gz > /tmp/egpu-node
  chmod +x /tmp/egpu-node
fi
cp test/device/cuda*.mjs test/device/controller.mjs test/device/cuda-*.py test/device/victim.py .device/
exec /tmp/egpu-node .device/cuda.mjs
