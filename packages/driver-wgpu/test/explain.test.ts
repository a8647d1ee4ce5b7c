import { expect, test } from 'vitest'
import { explainFailure } from '../src/adapters/explain.ts'

const nothing = (log: string): string => explainFailure({ kind: 'nothing', log }, 'linux')

test('names the missing Vulkan loader', () => {
  const log =
    "Warning: Couldn't load Vulkan: libvulkan.so.1: cannot open shared object file: No such file or directory\n"
  expect(nothing(log)).toMatch(/Vulkan loader cannot be loaded \(libvulkan.so.1: cannot open.*libvulkan1/)
})

test('tells a broken driver from no driver', () => {
  const none = 'Warning: vkCreateInstance: Found no drivers!\n'
  const broken =
    'Warning: loader_icd_scan: Failed loading library associated with ICD JSON /nope.so. Ignoring this JSON\n'
  expect(nothing(none)).toMatch(/no Vulkan driver \(ICD\).*mesa-vulkan-drivers/)
  expect(nothing(broken + none)).toMatch(/driver \/nope\.so cannot be loaded/)
})

test('names the C++ library that is too old', () => {
  const message = "/lib/x86_64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.32' not found (required by dawn.node)"
  expect(explainFailure({ kind: 'load-failed', message }, 'linux')).toMatch(/needs GLIBCXX_3\.4\.32/)
})

test('says that a driver crashed or hung', () => {
  expect(explainFailure({ kind: 'crashed', by: 'SIGSEGV', log: '' }, 'linux')).toMatch(/crashed.*SIGSEGV/)
  expect(explainFailure({ kind: 'timed-out', afterMs: 20_000 }, 'linux')).toMatch(/within 20000 ms/)
})
