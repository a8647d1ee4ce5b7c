/**
 * Debian packages that the system tests use: a compiler for the native test parts, SwiftShader and Chromium for a real
 * WebGPU, QEMU for a real kernel, umockdev for udev. On Debian as root they are installed; elsewhere the tests that need them are skipped
 * with the reason.
 */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'

/** Package → what the tests use it for. */
export const systemPackages = {
  'acpica-tools': 'compiles the ACPI table that marks a QEMU port as external',
  'busybox-static': 'the QEMU guest',
  'ceph-mon': "a real S3 server with conditional writes, for the store: Ceph's gateway and what it needs",
  'ceph-osd': 'the same',
  chromium: 'browser tests, and the SwiftShader Vulkan driver that Dawn runs on without a GPU',
  cpio: 'packs the QEMU guest',
  'etcd-server': 'the coordinator of the mesh, a cluster in network namespaces',
  gcc: 'the Vulkan layer that loses devices, the fake IOKit, the fake CUDA',
  'gir1.2-umockdev-1.0': "udev's socket with a mocked machine",
  iperf3: 'the rival of bulk transfers',
  iproute2: 'network namespaces, cables and LANs of the mesh tests',
  kmod: 'modules of the QEMU guest',
  'libc6-dev': 'headers for gcc',
  'libvulkan-dev': 'headers for the Vulkan layer',
  libvulkan1: 'the Vulkan loader that Dawn opens',
  'mesa-vulkan-drivers': "Mesa's device-select layer, which chooses one of two identical GPUs",
  'python3-gi': 'drives umockdev',
  'qemu-system-x86': 'a real kernel whose GPUs come and go',
  radosgw: 'the same',
  sockperf: 'the rival of latency measurements',
  udev: 'udevadm, and the rival it is measured against',
  umockdev: "udev's socket with a mocked machine",
  'xz-utils': 'unpacks the kernel of the QEMU guest',
  zstd: 'the same',
}

function installed(name) {
  const { stdout } = spawnSync('dpkg-query', ['-W', '-f=${Status}', name], { encoding: 'utf8' })
  return stdout?.includes('install ok installed') === true
}

/** Resolves to a sentence saying what could not be installed and why, or to undefined when all is there. */
export function installSystemPackages() {
  if (!existsSync('/usr/bin/dpkg-query'))
    return 'this is not Debian: install the tools by hand (CONTRIBUTING.md lists them)'
  const missing = Object.keys(systemPackages).filter((name) => !installed(name))
  if (missing.length === 0) return undefined
  if (process.getuid?.() !== 0) return `not root, so these are not installed: apt-get install ${missing.join(' ')}`
  console.log(`installing ${missing.join(' ')}`)
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  const apt = (...args) =>
    spawnSync('apt-get', ['-q', '-o', 'DPkg::Lock::Timeout=300', ...args], { env, encoding: 'utf8' })
  apt('update')
  const { status, stderr } = apt('install', '-y', '--no-install-recommends', ...missing)
  return status === 0 ? undefined : `apt-get install failed: ${stderr.trim().split('\n').at(-1)}`
}
