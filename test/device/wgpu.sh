#!/bin/sh
# WebGPU on a machine with one or more NVIDIA GPUs, in one call. Results: $OUT/wgpu.json.
set -e
cd "$(dirname "$0")/../.."
OUT="${OUT:-/tmp/egpu-device}"
export OUT
mkdir -p "$OUT" /tmp/egpu-vulkan
unpack() {
  [ -e "$2" ] || python3 -c 'import lzma, shutil, sys; shutil.copyfileobj(lzma.open(sys.argv[1]), open(sys.argv[2], "wb"))' "$1" "$2"
}
unpack artefacts/device-wgpu/node.xz /tmp/egpu-node
chmod +x /tmp/egpu-node
DAWN=artefacts/device-wgpu/node_modules/webgpu/dist/linux-x64/dawn.node
unpack "$DAWN.xz" "$DAWN"
for package in artefacts/device-wgpu/debian/*.deb; do dpkg -x "$package" /tmp/egpu-vulkan; done
LIBRARIES=/tmp/egpu-vulkan/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$LIBRARIES" XDG_DATA_DIRS=/tmp/egpu-vulkan/usr/share
rm -f /tmp/egpu-vulkan/usr/share/vulkan/icd.d/*
for icd in /usr/share/vulkan/icd.d/nvidia_icd.json /etc/vulkan/icd.d/nvidia_icd.json \
  /usr/local/nvidia/share/vulkan/icd.d/nvidia_icd.json; do
  if [ -e "$icd" ]; then export VK_DRIVER_FILES="$icd" VK_ICD_FILENAMES="$icd"; fi
done
exec /tmp/egpu-node --expose-gc artefacts/device-wgpu/run.js
