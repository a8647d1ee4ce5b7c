import type { DeviceNode } from './handles/device-handle.ts'
import { RootNode } from './handles/queue-handle.ts'

/** Hands errors that no scope caught from whichever device to those who listen on the protected one. */
export function forwardErrors(node: DeviceNode, device: GPUDevice): void {
  const attach = (real: GPUDevice): GPUDevice => {
    real.addEventListener('uncapturederror', (event) => forward(event, node, device))
    return real
  }
  // Also attaches to every device to come.
  void new RootNode(node.core, attach)
}

function forward(event: GPUUncapturedErrorEvent, node: DeviceNode, device: GPUDevice): void {
  const Kind = event.constructor as new (type: string, init: GPUUncapturedErrorEventInit) => GPUUncapturedErrorEvent
  const copy = new Kind('uncapturederror', { error: event.error, cancelable: true })
  for (const name of ['target', 'currentTarget'] as const) Object.defineProperty(copy, name, { value: device })
  node.onuncapturederror?.call(device, copy)
  node.events.dispatchEvent(copy)
  if (copy.defaultPrevented) event.preventDefault()
}
