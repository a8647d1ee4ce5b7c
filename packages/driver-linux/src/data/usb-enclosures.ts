/** A box, or a part of one, that shows itself on the USB bus. */
export interface UsbEnclosureId {
  readonly vendorId: number
  readonly productId: number
  readonly name: string
  /**
   * `bridge`: the box's only chip, which is a USB device exactly when it did not come up as USB4 router; cases for disks
   * have the same chip. `companion`: a hub or light controller that is there in both cases, so that it tells something
   * only when no router is. `usb-gpu`: a box with firmware that offers its GPU over USB on purpose.
   */
  readonly kind: 'bridge' | 'companion' | 'usb-gpu'
  /** Where the ids are published. */
  readonly source: string
}

export const usbEnclosures: readonly UsbEnclosureId[] = [
  {
    vendorId: 0x174c,
    productId: 0x2463,
    name: 'ASMedia ASM2464PD box',
    kind: 'bridge',
    source:
      'tinygrad extra/usbgpu/patch.py and issue 18156 (ADT-Link UT3G); smartmontools pull request 386 (a disk case)',
  },
  {
    vendorId: 0x174c,
    productId: 0x2464,
    name: 'ASMedia ASM2464PD box',
    kind: 'bridge',
    source: 'tinygrad extra/usbgpu/patch.py, the controllers it accepts',
  },
  {
    vendorId: 0xadd1,
    productId: 0x0001,
    name: "ASM2464PD box with tinygrad's firmware",
    kind: 'usb-gpu',
    source: 'tinygrad pull request 17348, the devices it looks for',
  },
  {
    vendorId: 0x3801,
    productId: 0x0001,
    name: "ASM2464PD box with tinygrad's firmware",
    kind: 'usb-gpu',
    source: 'tinygrad pull requests 17348 and 17623; asm2464pd-firmware pull request 76',
  },
  {
    vendorId: 0x1532,
    productId: 0x0215,
    name: 'Razer Core',
    kind: 'companion',
    source: 'openrazer driver/razeraccessory_driver.h, RAZER_CORE; OpenRGB RazerDevices.h, RAZER_CORE_PID',
  },
  {
    vendorId: 0x1532,
    productId: 0x0f1a,
    name: 'Razer Core X Chroma',
    kind: 'companion',
    source: 'openrazer driver/razeraccessory_driver.h, RAZER_CORE_X_CHROMA; OpenRGB RazerDevices.h, RAZER_CORE_X_PID',
  },
]

/** Class of a Billboard device: it says that an alternate mode failed (USB Billboard Device Class 1.2.2, chapter 3). */
export const billboardClass = 0x11
