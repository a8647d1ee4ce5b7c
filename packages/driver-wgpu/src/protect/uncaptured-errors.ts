import type { DeviceNode } from './handles/device-handle.ts'
import { RootNode } from './handles/queue-handle.ts'

/** Hands errors that no scope caught from whichever device to those who listen on the protected one. */
export function forwardErrors(node: DeviceNode, device: GPUDevice): void {
  const listener = (event: GPUUncapturedErrorEvent): void => forward(event, node, device)
  let listenedTo: GPUDevice | undefined
  // Dawn for Node holds on to listeners, and through them to everything here, until they are taken back.
  const detach = (): void => listenedTo?.removeEventListener('uncapturederror', listener)
  const attach = (real: GPUDevice): GPUDevice => {
    detach()
    listenedTo = real
    real.addEventListener('uncapturederror', listener)
    return real
  }
  // Also attaches to every device to come.
  void new RootNode(node.core, attach)
  void node.core.ended.promise.then(detach)
}

function forward(event: GPUUncapturedErrorEvent, node: DeviceNode, device: GPUDevice): void {
  node.core.errorsHeard += 1
  const Kind = event.constructor as new (type: string, init: GPUUncapturedErrorEventInit) => GPUUncapturedErrorEvent
  const copy = new Kind('uncapturederror', { error: event.error, cancelable: true })
  for (const name of ['target', 'currentTarget'] as const) Object.defineProperty(copy, name, { value: device })
  node.onuncapturederror?.call(device, copy)
  node.events.dispatchEvent(copy)
  if (copy.defaultPrevented) event.preventDefault()
}
