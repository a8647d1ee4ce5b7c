import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { usbEnclosures } from '../../src/data/usb-enclosures.ts'
import { usbFindings } from '../../src/usb/findings.ts'
import type { UsbDeviceFacts } from '../../src/usb/findings.ts'
import { UsbFallbacks } from '../../src/usb/index.ts'
import { listUsb } from '../../src/usb/list-usb.ts'
import type { Topology } from '../../src/topology/types.ts'

const device = (vendorId: number, productId: number, deviceClass = 0): UsbDeviceFacts => ({
  vendorId,
  productId,
  deviceClass,
  place: '1-2',
})
const noBoxes = { thunderbolt: { routers: [{ isHost: true }] } } as unknown as Topology

describe('boxes that fell back to USB', () => {
  it('a USB4 bridge that came up as USB device', () => {
    expect(usbFindings([device(0x174c, 0x2463)], 0)).toMatchObject([
      { code: 'enclosure-usb-only', severity: 'warning' },
    ])
  })

  it('nothing about a case for disks with the same chip', () => {
    expect(usbFindings([{ ...device(0x174c, 0x2463), hasDisk: true }], 0)).toEqual([])
    expect(usbFindings([{ ...device(0x1532, 0x0f1a), hasDisk: true }], 0)).toHaveLength(1)
  })

  it('a box whose firmware offers the GPU over USB is none that fell back', () => {
    expect(usbFindings([device(0xadd1, 0x0001)], 0)).toMatchObject([{ code: 'enclosure-usb-only', severity: 'info' }])
  })

  it('a hub of a box without the box', () => {
    expect(usbFindings([device(0x1532, 0x0f1a)], 0)).toMatchObject([{ code: 'enclosure-usb-only' }])
  })

  it('nothing while a box is connected: the hub is part of it', () => {
    expect(usbFindings([device(0x1532, 0x0f1a), device(0x174c, 0x2464)], 1)).toEqual([])
  })

  it('a billboard, whatever else is connected', () => {
    expect(usbFindings([device(0x2109, 0x0102, 0x11)], 1)).toMatchObject([{ code: 'alternate-mode-failed' }])
  })

  it('nothing about keyboards, storage and other hubs', () => {
    const others = [device(0x046d, 0xc31c), device(0x174c, 0x55aa), device(0x1d6b, 0x0003, 9), device(0x1532, 0x0001)]
    expect(usbFindings(others, 0)).toEqual([])
  })
})

it('names the source of every id', () => {
  for (const { source, vendorId, productId } of usbEnclosures) {
    expect(source).toMatch(/\S+ \S+/)
    expect(vendorId).toBeLessThanOrEqual(0xffff)
    expect(productId).toBeLessThanOrEqual(0xffff)
  }
  expect(new Set(usbEnclosures.map(({ vendorId, productId }) => `${vendorId}:${productId}`)).size).toBe(
    usbEnclosures.length,
  )
})

it('lists the bus again only when something on it changed', async () => {
  const root = mkdtempSync(join(tmpdir(), 'egpu-usb-'))
  try {
    let listed = 0
    const fallbacks = new UsbFallbacks(root, async () => {
      listed++
      return [device(0x174c, 0x2464)]
    })
    expect(await fallbacks.find(noBoxes)).toEqual([])
    expect(listed).toBe(0)
    mkdirSync(join(root, 'bus/usb/devices/1-2'), { recursive: true })
    expect(await fallbacks.find(noBoxes)).toHaveLength(1)
    await fallbacks.find(noBoxes)
    expect(listed).toBe(1)
    // Another device at the same place.
    writeFileSync(join(root, 'bus/usb/devices/1-2/devnum'), '7\n')
    await fallbacks.find(noBoxes)
    expect(listed).toBe(2)
    const disk = join(root, 'bus/usb/devices/1-2/1-2:1.0/host6/target6:0:0/6:0:0:0/block')
    mkdirSync(disk, { recursive: true })
    expect(await fallbacks.find(noBoxes)).toHaveLength(1)
    mkdirSync(join(disk, 'sda'))
    expect(await fallbacks.find(noBoxes)).toEqual([])
    rmSync(join(root, 'bus/usb/devices/1-2'), { recursive: true })
    expect(await fallbacks.find(noBoxes)).toEqual([])
  } finally {
    rmSync(root, { recursive: true })
  }
})

it('goes on without an answer from native code that hangs', async () => {
  const root = mkdtempSync(join(tmpdir(), 'egpu-usb-'))
  try {
    mkdirSync(join(root, 'bus/usb/devices/1-2'), { recursive: true })
    expect(await new UsbFallbacks(root, () => new Promise(() => {})).find(noBoxes)).toEqual([])
  } finally {
    rmSync(root, { recursive: true })
  }
})

it.runIf(process.platform === 'linux')('lists the real bus through the usb package, or nothing', async () => {
  for (const { vendorId, place } of await listUsb()) {
    expect(vendorId).toBeGreaterThan(0)
    expect(place).not.toBe('')
  }
})
