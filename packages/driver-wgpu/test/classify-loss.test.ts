import { expect, test } from 'vitest'
import { classifyLoss } from '../src/device/classify-loss.ts'

const vulkan = 'vkQueueSubmit failed with VK_ERROR_DEVICE_LOST\n - While handling unexpected error type DeviceLost'

test.each([
  ['destroyed', { reason: 'destroyed', message: 'Device was destroyed.', onBus: undefined }],
  ['unknown', { reason: 'unknown', message: vulkan, onBus: undefined }],
  ['unplugged', { reason: 'unknown', message: vulkan, onBus: false }],
  ['reset', { reason: 'unknown', message: vulkan, onBus: true }],
  ['hung', { reason: 'unknown', message: 'ID3D12Device: DXGI_ERROR_DEVICE_HUNG (0x887A0006)', onBus: undefined }],
  ['unplugged', { reason: 'unknown', message: 'DXGI_ERROR_DEVICE_REMOVED (0x887A0005)', onBus: undefined }],
  ['reset', { reason: 'unknown', message: 'DXGI_ERROR_DEVICE_RESET (0x887A0007)', onBus: undefined }],
  [
    'process-crash',
    { reason: 'unknown', message: 'A valid external Instance reference no longer exists.', onBus: undefined },
  ],
  ['unknown', { reason: 'unknown', message: '', onBus: undefined }],
] as const)('calls it %s', (expected, signs) => {
  expect(classifyLoss(signs)).toBe(expected)
})
