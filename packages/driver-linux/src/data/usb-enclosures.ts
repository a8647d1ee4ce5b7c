/** A box, or a part of one, that shows itself on the USB bus. */
export interface UsbEnclosureId {
  readonly vendorId: number
  readonly productId: number
  readonly name: string
  /**
   * `bridge`: the box's only chip, which is a USB device exactly when it did not come up as USB4 router. `companion`: a
   * hub or light controller that is there in both cases, so that it tells something only when no router is.
   */
  readonly kind: 'bridge' | 'companion'
  /** Where the ids are published. */
  readonly source: string
}

export const usbEnclosures: readonly UsbEnclosureId[] = [
  {
    vendorId: 0x174c,
    productId: 0x2463,
    name: 'ASMedia ASM2464PD box',
    kind: 'bridge',
    source: 'tinygrad extra/usbgpu/patch.py, the controllers it accepts',
  },
  {
    vendorId: 0x174c,
    productId: 0x2464,
    name: 'ASMedia ASM2464PD box',
    kind: 'bridge',
    source: 'tinygrad extra/usbgpu/patch.py, the controllers it accepts',
  },
  {
    vendorId: 0x1532,
    productId: 0x0215,
    name: 'Razer Core',
    kind: 'companion',
    source: 'OpenRGB RazerDevices.h, RAZER_CORE_PID',
  },
  {
    vendorId: 0x1532,
    productId: 0x0f1a,
    name: 'Razer Core X Chroma',
    kind: 'companion',
    source: 'OpenRGB RazerDevices.h, RAZER_CORE_X_PID',
  },
]

/** Class of a Billboard device: it says that an alternate mode failed (USB Billboard Device Class 1.2.2, chapter 3). */
export const billboardClass = 0x11
