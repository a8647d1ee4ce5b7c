import { describe, expect, it } from 'vitest'
import { Dialer, type DialerTarget } from '../../src/discovery/dialer.ts'

/** Dials nobody for real, and says whom it would. */
function rig(): { readonly dialer: Dialer; readonly dialled: string[]; readonly close: () => void } {
  const dialled: string[] = []
  const stop = new AbortController()
  const dialer = new Dialer({
    nodeId: 'b',
    connected: () => undefined,
    dial: ({ host, port }) => {
      dialled.push(`${host} ${port}`)
      return new Promise((_, reject) => stop.signal.addEventListener('abort', () => reject(stop.signal.reason)))
    },
  })
  const close = (): void => {
    dialer.close()
    stop.abort()
  }
  return { dialer, dialled, close }
}

const seen = (host: string, port: number): DialerTarget => ({ host, port, peerId: 'a', interfaceName: 'thunderbolt0' })

describe('those to be dialled', () => {
  it('that are said to be at one address are few, so that whoever says so keeps nobody else on the cable out', () => {
    const { dialer, dialled, close } = rig()
    for (let port = 1; port <= 1_000; port += 1) dialer.want(`lie ${port}`, seen('fe80::bad%thunderbolt0', port))
    dialer.want('truth', seen('fe80::1%thunderbolt0', 7))
    expect(dialled).toHaveLength(9)
    expect(dialled.at(-1)).toBe('fe80::1%thunderbolt0 7')
    close()
  })

  it('that were written down are as many as were', () => {
    const { dialer, dialled, close } = rig()
    for (let port = 1; port <= 200; port += 1)
      dialer.want(`static ${port}`, { host: '10.0.0.1', port, peerId: undefined, interfaceName: undefined })
    expect(dialled).toHaveLength(200)
    close()
  })
})
